/* Further natives of the JavaScript world: what JavaScript itself cannot see (class identities, promise states, proxy
 * targets, iterator contents) and the UTF-8 loops that would be slow there. None of them runs guest code. */
#include "shim.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Mirrors of engine structures the public header hides, up to the last field read here. They hold for QuickJS-ng 0.16.2,
 * the version sources/Cargo.lock pins; the snippets that print iterators fail if a layout moves. */
struct engine_list {
    struct engine_list *prev, *next;
};

struct engine_map_state {
    bool is_weak;
    struct engine_list records;
};

struct engine_map_record {
    int ref_count;
    bool empty;
    struct engine_map_state *map;
    struct engine_list link;
    struct engine_list hash_link;
    JSValue key;
    JSValue value;
};

enum engine_iterator_kind { ITERATOR_KEYS, ITERATOR_VALUES, ITERATOR_ENTRIES };

struct engine_map_iterator {
    JSValue obj;
    enum engine_iterator_kind kind;
    struct engine_map_record *cur_record;
};

/* The class of Number objects; known once natives are added. */
static JSClassID number_class;

/* Set in an atom that is an array index. */
#define ATOM_INDEX_BIT (1U << 31)

/* A pair; takes over both values. */
static JSValue new_pair(JSContext *ctx, JSValue first, JSValue second)
{
    JSValue pair = JS_NewArray(ctx);
    if (JS_IsException(pair)) {
        JS_FreeValue(ctx, first);
        JS_FreeValue(ctx, second);
        return pair;
    }
    JS_SetPropertyUint32(ctx, pair, 0, first);
    JS_SetPropertyUint32(ctx, pair, 1, second);
    return pair;
}

/* classId(value): the engine's class number of an object, -1 for a primitive. */
static JSValue native_class_id(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    return JS_NewInt32(ctx, JS_IsObject(argv[0]) ? (int32_t)JS_GetClassID(argv[0]) : -1);
}

/* promiseDetails(value): [state, result], state 0 pending, 1 fulfilled, 2 rejected; undefined for another value. */
static JSValue native_promise_details(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int state = (int)JS_PromiseState(ctx, argv[0]);
    (void)self;
    (void)argc;
    if (state < 0)
        return JS_UNDEFINED;
    return new_pair(ctx, JS_NewInt32(ctx, state),
                    state == JS_PROMISE_PENDING ? JS_UNDEFINED : JS_PromiseResult(ctx, argv[0]));
}

/* A revoked proxy throws when asked; here it is told as null. */
static JSValue null_if_thrown(JSContext *ctx, JSValue value)
{
    if (!JS_IsException(value))
        return value;
    JS_FreeValue(ctx, JS_GetException(ctx));
    return JS_NULL;
}

/* proxyDetails(value): [target, handler], nulls once revoked; undefined for another value. */
static JSValue native_proxy_details(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    if (!JS_IsProxy(argv[0]))
        return JS_UNDEFINED;
    return new_pair(ctx, null_if_thrown(ctx, JS_GetProxyTarget(ctx, argv[0])),
                    null_if_thrown(ctx, JS_GetProxyHandler(ctx, argv[0])));
}

/* iteratorEntries(iterator, iteratorClass, collectionClass): what a Map or Set iterator still holds, without moving it:
 * [flat array, whether it yields pairs]; undefined if the value is not of that class. */
static JSValue native_iterator_entries(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int32_t iterator_class, collection_class;
    uint32_t count = 0;
    (void)self;
    (void)argc;
    if (JS_ToInt32(ctx, &iterator_class, argv[1]) || JS_ToInt32(ctx, &collection_class, argv[2]))
        return JS_EXCEPTION;
    struct engine_map_iterator *it = JS_GetOpaque(argv[0], (JSClassID)iterator_class);
    if (!it)
        return JS_UNDEFINED;
    JSValue flat = JS_NewArray(ctx);
    if (JS_IsException(flat))
        return flat;
    struct engine_map_state *map =
        JS_IsObject(it->obj) ? JS_GetOpaque(it->obj, (JSClassID)collection_class) : NULL;
    if (map) {
        /* The record the iterator stands on was already handed out. */
        struct engine_list *link = it->cur_record ? it->cur_record->link.next : map->records.next;
        for (; link != &map->records; link = link->next) {
            struct engine_map_record *record =
                (struct engine_map_record *)((char *)link - offsetof(struct engine_map_record, link));
            if (record->empty)
                continue;
            if (it->kind != ITERATOR_VALUES)
                JS_SetPropertyUint32(ctx, flat, count++, JS_DupValue(ctx, record->key));
            if (it->kind != ITERATOR_KEYS)
                JS_SetPropertyUint32(ctx, flat, count++, JS_DupValue(ctx, record->value));
        }
    }
    return new_pair(ctx, flat, JS_NewBool(ctx, it->kind == ITERATOR_ENTRIES));
}

/* nonIndexKeys(object, onlyEnumerable): own keys that are no array index, strings before symbols. */
static JSValue native_non_index_keys(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    JSPropertyEnum *tab;
    uint32_t length, count = 0;
    int flags = JS_GPN_STRING_MASK | JS_GPN_SYMBOL_MASK;
    (void)self;
    (void)argc;
    if (JS_ToBool(ctx, argv[1]))
        flags |= JS_GPN_ENUM_ONLY;
    if (JS_GetOwnPropertyNames(ctx, &tab, &length, argv[0], flags))
        return JS_EXCEPTION;
    JSValue keys = JS_NewArray(ctx);
    for (uint32_t i = 0; i < length && !JS_IsException(keys); i++) {
        if (!(tab[i].atom & ATOM_INDEX_BIT))
            JS_SetPropertyUint32(ctx, keys, count++, JS_AtomToValue(ctx, tab[i].atom));
    }
    JS_FreePropertyEnum(ctx, tab, length);
    return keys;
}

/* Reads one character, a lone surrogate as U+FFFD, and moves `*at` past it. */
static uint32_t utf16_take(const uint16_t *units, size_t length, size_t *at)
{
    uint32_t point = units[(*at)++];
    if (point < 0xd800 || point > 0xdfff)
        return point;
    if (point < 0xdc00 && *at < length && units[*at] >= 0xdc00 && units[*at] <= 0xdfff)
        return 0x10000 + ((point - 0xd800) << 10) + (units[(*at)++] - 0xdc00u);
    return 0xfffd;
}

static size_t utf8_size(uint32_t point)
{
    return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

/* utf8Length(string): bytes of its UTF-8 form. */
static JSValue native_utf8_length(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length, at = 0, bytes = 0;
    (void)self;
    (void)argc;
    const uint16_t *units = JS_ToCStringLenUTF16(ctx, &length, argv[0]);
    if (!units)
        return JS_EXCEPTION;
    while (at < length)
        bytes += utf8_size(utf16_take(units, length, &at));
    JS_FreeCStringUTF16(ctx, units);
    return JS_NewInt64(ctx, (int64_t)bytes);
}

/* utf8EncodeInto(string, Uint8Array): [units read, bytes written]; a character that does not fit whole is not begun. */
static JSValue native_utf8_encode_into(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length, room, read = 0, written = 0;
    (void)self;
    (void)argc;
    const uint16_t *units = JS_ToCStringLenUTF16(ctx, &length, argv[0]);
    if (!units)
        return JS_EXCEPTION;
    uint8_t *out = JS_GetUint8Array(ctx, &room, argv[1]);
    if (!out) {
        JS_FreeCStringUTF16(ctx, units);
        return JS_EXCEPTION;
    }
    while (read < length) {
        size_t next = read;
        uint32_t point = utf16_take(units, length, &next);
        size_t size = utf8_size(point);
        if (size > room - written)
            break;
        if (size == 1) {
            out[written++] = (uint8_t)point;
        } else {
            static const uint8_t leads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
            out[written++] = (uint8_t)(leads[size] | point >> 6 * (size - 1));
            for (size_t left = size - 1; left > 0; left--)
                out[written++] = (uint8_t)(0x80 | (point >> 6 * (left - 1) & 0x3f));
        }
        read = next;
    }
    JS_FreeCStringUTF16(ctx, units);
    return new_pair(ctx, JS_NewInt64(ctx, (int64_t)read), JS_NewInt64(ctx, (int64_t)written));
}

/* memoryUsed(): bytes the engine has allocated. Walks the whole heap. */
static JSValue native_memory_used(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    JSMemoryUsage usage;
    (void)self;
    (void)argc;
    (void)argv;
    JS_ComputeMemoryUsage(JS_GetRuntime(ctx), &usage);
    return JS_NewInt64(ctx, usage.malloc_size);
}

/* Digits on each side of the point: 2^1024 has 1024 binary ones, 2^-1074 as many after the point. */
#define RADIX_DIGITS 1100

static char radix_digit(int value) { return (char)(value < 10 ? '0' + value : 'a' + value - 10); }
static int radix_value(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

/* The text of a finite number in another radix with as many digits as tell it apart from its neighbours, V8's way; it
 * starts at the returned place of `text`, whose length is 2 * RADIX_DIGITS. */
static const char *radix_text(double value, int radix, char *text, size_t *length)
{
    double magnitude = fabs(value), integer = floor(magnitude), fraction = magnitude - integer;
    double next = nextafter(magnitude, INFINITY);
    double spacing = 0.5 * (isinf(next) ? magnitude - nextafter(magnitude, 0) : next - magnitude), delta = fmax(spacing, 0x1p-1074);
    char *start = text + RADIX_DIGITS, *end = start;
    if (fraction >= delta) {
        *end++ = '.';
        do {
            fraction *= radix;
            delta *= radix;
            int digit = (int)fraction;
            *end++ = radix_digit(digit);
            fraction -= digit;
            if ((fraction > 0.5 || (fraction == 0.5 && (digit & 1))) && fraction + delta > 1) {
                /* Round up; a digit that overflows goes, and the carry moves on. */
                for (;;) {
                    end--;
                    if (end == start) {
                        integer += 1;
                        break;
                    }
                    int carried = radix_value(*end) + 1;
                    if (carried < radix) {
                        *end++ = radix_digit(carried);
                        break;
                    }
                }
                break;
            }
        } while (fraction >= delta);
    }
    /* Digits below half the distance to the next number say nothing. */
    for (double unsure = spacing; unsure >= radix; unsure /= radix) {
        integer /= radix;
        *--start = '0';
    }
    do {
        double rest = fmod(integer, radix);
        *--start = radix_digit((int)rest);
        integer = (integer - rest) / radix;
    } while (integer > 0);
    if (value < 0)
        *--start = '-';
    *length = (size_t)(end - start);
    return start;
}

/* Number.prototype.toString, whose digits in other radices than ten differ from the engine's own. */
static JSValue native_number_to_string(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    double value, radix = 10;
    char text[2 * RADIX_DIGITS];
    size_t length;
    (void)argc;
    if (!JS_IsNumber(self) && !(JS_IsObject(self) && JS_GetClassID(self) == number_class))
        return JS_ThrowTypeError(ctx, "Number.prototype.toString requires that 'this' be a Number");
    if (JS_ToFloat64(ctx, &value, self))
        return JS_EXCEPTION;
    if (!JS_IsUndefined(argv[0])) {
        if (JS_ToFloat64(ctx, &radix, argv[0]))
            return JS_EXCEPTION;
        radix = trunc(radix);
        if (!(radix >= 2 && radix <= 36))
            return JS_ThrowRangeError(ctx, "toString() radix argument must be between 2 and 36");
    }
    if (radix == 10 || !isfinite(value)) {
        return JS_ToString(ctx, JS_NewNumber(ctx, value));
    }
    const char *start = radix_text(value == 0 ? 0 : value, (int)radix, text, &length);
    return JS_NewStringLen(ctx, start, length);
}

static const JSCFunctionListEntry further[] = {
    JS_CFUNC_DEF("classId", 1, native_class_id),
    JS_CFUNC_DEF("promiseDetails", 1, native_promise_details),
    JS_CFUNC_DEF("proxyDetails", 1, native_proxy_details),
    JS_CFUNC_DEF("iteratorEntries", 3, native_iterator_entries),
    JS_CFUNC_DEF("nonIndexKeys", 2, native_non_index_keys),
    JS_CFUNC_DEF("memoryUsed", 0, native_memory_used),
    JS_CFUNC_DEF("utf8Length", 1, native_utf8_length),
    JS_CFUNC_DEF("utf8EncodeInto", 2, native_utf8_encode_into),
};

void plimsoll_add_natives(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, further, sizeof further / sizeof further[0]);
    JSValue global = JS_GetGlobalObject(ctx), number = JS_GetPropertyStr(ctx, global, "Number");
    JSValue prototype = JS_GetPropertyStr(ctx, number, "prototype");
    /* The prototype is itself a Number object. */
    number_class = JS_GetClassID(prototype);
    JS_DefinePropertyValueStr(ctx, prototype, "toString",
                              JS_NewCFunction(ctx, native_number_to_string, "toString", 1),
                              JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JS_FreeValue(ctx, prototype);
    JS_FreeValue(ctx, number);
    JS_FreeValue(ctx, global);
}
