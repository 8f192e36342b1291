/* What the engine asks of the world around it: the run's clock and randomness, and the natives that read them, write, call
 * the host or set a hook of the run loop.
 */
#include "shim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

/* High half: HTTP status; low half: bytes written at `response`. */
PLIMSOLL_IMPORT("host_call")
int64_t host_call(const void *request, size_t request_length, void *response, size_t capacity);

/* One operation on the session's files: a size or 0, or a negative error number. What is read goes to `out` if it fits. */
PLIMSOLL_IMPORT("files")
int64_t host_files(int32_t operation, const void *path, size_t path_length, const void *data, size_t data_length, void *out,
                   size_t capacity);

#define RESPONSE_CAPACITY (4 * 1024 * 1024)

PlimsollRun plimsoll_run;
JSValue plimsoll_hooks[HOOK_COUNT];

/* --- clock and randomness ------------------------------------------------------------------------------------------ */

int64_t plimsoll_clock_read(void)
{
    return plimsoll_run.running ? plimsoll_run.elapsed_ms++ : 0;
}

/* The engine and libc ask for time through these two; defining them here keeps libc's own, which import WASI, out. */
int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    int64_t now = plimsoll_run.start_ms + plimsoll_clock_read();
    (void)zone;
    tv->tv_sec = now / 1000;
    tv->tv_usec = (now % 1000) * 1000;
    return 0;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t now = plimsoll_clock_read();
    if (id == CLOCK_REALTIME)
        now += plimsoll_run.start_ms;
    ts->tv_sec = now / 1000;
    ts->tv_nsec = (now % 1000) * 1000000;
    return 0;
}

/* SplitMix64. */
static uint64_t random_next(void)
{
    uint64_t z = plimsoll_run.random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void plimsoll_random_fill(uint8_t *out, size_t length)
{
    while (length > 0) {
        uint64_t word = random_next();
        size_t part = length < sizeof word ? length : sizeof word;
        memcpy(out, &word, part);
        out += part;
        length -= part;
    }
}

/* --- natives ------------------------------------------------------------------------------------------------------- */

/* UTF-8 of a string, lone surrogates replaced. QuickJS writes a lone surrogate as three bytes ED A0..BF xx, which is as
 * long as U+FFFD; only a converted copy can hold them, so it may be changed in place. */
static const char *utf8_of(JSContext *ctx, JSValueConst value, size_t *length)
{
    const char *text = JS_ToCStringLen(ctx, length, value);
    if (!text)
        return NULL;
    char *at = (char *)text, *end = at + *length;
    while (end - at >= 3 && (at = memchr(at, 0xed, end - at - 2))) {
        if ((uint8_t)at[1] >= 0xa0) {
            memcpy(at, "\xef\xbf\xbd", 3);
        }
        at += 3;
    }
    return text;
}

static JSValue native_write(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int32_t fd;
    size_t length;
    (void)self;
    (void)argc;
    if (JS_ToInt32(ctx, &fd, argv[0]))
        return JS_EXCEPTION;
    if (JS_IsString(argv[1])) {
        const char *text = utf8_of(ctx, argv[1], &length);
        if (!text)
            return JS_EXCEPTION;
        plimsoll_host_write(fd, text, length);
        JS_FreeCString(ctx, text);
    } else {
        uint8_t *bytes = JS_GetUint8Array(ctx, &length, argv[1]);
        if (!bytes)
            return JS_EXCEPTION;
        plimsoll_host_write(fd, bytes, length);
    }
    return JS_UNDEFINED;
}

static JSValue native_now(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    (void)argv;
    return JS_NewNumber(ctx, (double)(plimsoll_run.start_ms + plimsoll_clock_read()));
}

static JSValue native_monotonic(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    (void)argv;
    return JS_NewNumber(ctx, (double)plimsoll_clock_read());
}

static JSValue native_peek(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    (void)argv;
    return JS_NewNumber(ctx, (double)plimsoll_run.elapsed_ms);
}

static JSValue native_advance(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    double ms;
    (void)self;
    (void)argc;
    if (JS_ToFloat64(ctx, &ms, argv[0]))
        return JS_EXCEPTION;
    /* 2^52 ms is far past the last instant a Date can name. */
    if (plimsoll_run.running && ms > 0)
        plimsoll_run.elapsed_ms += (int64_t)ceil(fmin(ms, 0x1p52));
    return JS_UNDEFINED;
}

static JSValue native_random_fill(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    (void)self;
    (void)argc;
    uint8_t *bytes = JS_GetUint8Array(ctx, &length, argv[0]);
    if (!bytes)
        return JS_EXCEPTION;
    plimsoll_random_fill(bytes, length);
    return JS_DupValue(ctx, argv[0]);
}

static JSValue math_random(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    (void)argv;
    return JS_NewFloat64(ctx, (double)(random_next() >> 11) * 0x1p-53);
}

static JSValue native_exit(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int32_t code;
    (void)self;
    (void)argc;
    if (JS_ToInt32(ctx, &code, argv[0]))
        return JS_EXCEPTION;
    plimsoll_host_exit(code & 0xff);
}

/* One setter serves all hooks; `magic` picks the slot. */
static JSValue native_set_hook(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv, int magic)
{
    JSValue *slot = &plimsoll_hooks[magic];
    (void)self;
    (void)argc;
    if (!JS_IsFunction(ctx, argv[0]))
        return JS_ThrowTypeError(ctx, "a hook must be a function");
    JS_FreeValue(ctx, *slot);
    *slot = JS_DupValue(ctx, argv[0]);
    return JS_UNDEFINED;
}

static JSValue native_host_call(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    (void)self;
    (void)argc;
    if (!JS_IsString(argv[0]))
        return JS_ThrowTypeError(ctx, "the host call takes one string");
    const char *request = utf8_of(ctx, argv[0], &length);
    if (!request)
        return JS_EXCEPTION;
    char *response = malloc(RESPONSE_CAPACITY);
    if (!response) {
        JS_FreeCString(ctx, request);
        return JS_ThrowOutOfMemory(ctx);
    }
    int64_t answer = host_call(request, length, response, RESPONSE_CAPACITY);
    JS_FreeCString(ctx, request);
    uint32_t status = (uint32_t)((uint64_t)answer >> 32);
    uint32_t body_length = (uint32_t)answer;
    if (status < 100 || status > 599 || body_length > RESPONSE_CAPACITY) {
        free(response);
        return JS_ThrowInternalError(ctx, "the host answered outside the host-call contract");
    }
    JSValue body = JS_NewStringLen(ctx, response, body_length);
    free(response);
    if (JS_IsException(body))
        return body;
    JSValue result = JS_NewObject(ctx);
    JS_DefinePropertyValueStr(ctx, result, "status", JS_NewInt32(ctx, (int32_t)status), JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, result, "body", body, JS_PROP_C_W_E);
    return result;
}

/* files(operation, path, data): `data` is bytes, or a second path. Bytes for the operations that read (0: a file, 4: a folder),
 * a number otherwise; a negative number is an error. */
static JSValue native_files(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int32_t operation;
    size_t path_length, data_length = 0;
    const char *path, *text = NULL;
    const void *data = NULL;
    JSValue result = JS_EXCEPTION;
    (void)self;
    if (JS_ToInt32(ctx, &operation, argv[0]) || !(path = utf8_of(ctx, argv[1], &path_length)))
        return JS_EXCEPTION;
    if (argc > 2 && !JS_IsUndefined(argv[2])) {
        if (JS_IsString(argv[2]))
            data = text = utf8_of(ctx, argv[2], &data_length);
        else
            data = JS_GetUint8Array(ctx, &data_length, argv[2]);
        if (!data)
            goto done;
    }
    int64_t answer = host_files(operation, path, path_length, data, data_length, NULL, 0);
    if (answer < 0 || (operation != 0 && operation != 4)) {
        result = JS_NewInt64(ctx, answer);
        goto done;
    }
    void *out = malloc(answer ? (size_t)answer : 1);
    if (!out) {
        result = JS_ThrowOutOfMemory(ctx);
        goto done;
    }
    host_files(operation, path, path_length, NULL, 0, out, (size_t)answer);
    result = JS_NewUint8ArrayCopy(ctx, out, (size_t)answer);
    free(out);
done:
    if (text)
        JS_FreeCString(ctx, text);
    JS_FreeCString(ctx, path);
    return result;
}

/* The operation that tells what an entry is (js/fs.js). */
#define STAT 5

bool plimsoll_has_files(void)
{
    return host_files(STAT, "/", 1, NULL, 0, NULL, 0) >= 0;
}

/* compile(text, name, line): evaluates a script under that file name; its first line has that number. */
static JSValue native_compile(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    (void)self;
    (void)argc;
    const char *text = JS_ToCStringLen(ctx, &length, argv[0]);
    const char *name = text ? JS_ToCString(ctx, argv[1]) : NULL;
    JSEvalOptions options = { .version = JS_EVAL_OPTIONS_VERSION, .filename = name, .eval_flags = JS_EVAL_TYPE_GLOBAL };
    JSValue result = JS_EXCEPTION;
    if (name && !JS_ToInt32(ctx, &options.line_num, argv[2]))
        result = JS_Eval2(ctx, text, length, &options);
    JS_FreeCString(ctx, name);
    JS_FreeCString(ctx, text);
    return result;
}

static JSValue native_digest(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    uint8_t out[64];
    size_t length;
    (void)self;
    (void)argc;
    const char *name = JS_ToCString(ctx, argv[0]);
    if (!name)
        return JS_EXCEPTION;
    uint8_t *data = JS_GetUint8Array(ctx, &length, argv[1]);
    if (!data) {
        JS_FreeCString(ctx, name);
        return JS_EXCEPTION;
    }
    size_t written = plimsoll_digest(name, data, length, out);
    JSValue result = written ? JS_NewUint8ArrayCopy(ctx, out, written)
                             : JS_ThrowTypeError(ctx, "no digest named '%s'", name);
    JS_FreeCString(ctx, name);
    return result;
}

static JSValue native_source(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    (void)argv;
    const char *text = plimsoll_run.program;
    return text ? JS_NewStringLen(ctx, text, plimsoll_run.program_length) : JS_UNDEFINED;
}

/* File name of the cell that runs; undefined in a run. */
static JSValue native_cell(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    (void)argv;
    return plimsoll_run.cell > 0 ? JS_NewString(ctx, plimsoll_run.name) : JS_UNDEFINED;
}

static JSValue native_utf8_encode(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    (void)self;
    (void)argc;
    const char *text = utf8_of(ctx, argv[0], &length);
    if (!text)
        return JS_EXCEPTION;
    JSValue result = JS_NewUint8ArrayCopy(ctx, (const uint8_t *)text, length);
    JS_FreeCString(ctx, text);
    return result;
}

/* The decoder of the Encoding Standard: a bad sequence is replaced up to, not including, the first byte that cannot belong
 * to it. */
static JSValue native_utf8_decode(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length, i = 0, n = 0;
    (void)self;
    (void)argc;
    const uint8_t *in = JS_GetUint8Array(ctx, &length, argv[0]);
    if (!in)
        return JS_EXCEPTION;
    bool fatal = JS_ToBool(ctx, argv[1]) == 1;
    while (i < length && in[i] < 0x80)
        i++;
    if (i == length)
        return JS_NewStringLen(ctx, (const char *)in, length);
    uint16_t *out = malloc(length * sizeof *out);
    if (!out)
        return JS_ThrowOutOfMemory(ctx);
    for (i = 0; i < length;) {
        uint8_t lead = in[i++];
        if (lead < 0x80) {
            out[n++] = lead;
            continue;
        }
        int more = lead >= 0xc2 && lead <= 0xdf ? 1 : (lead & 0xf0) == 0xe0 ? 2 : lead >= 0xf0 && lead <= 0xf4 ? 3 : 0;
        uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
        uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        uint32_t point = lead & (0x3f >> more);
        bool good = more > 0;
        for (int k = 0; good && k < more; k++) {
            if (i < length && in[i] >= low && in[i] <= high)
                point = point << 6 | (in[i++] & 0x3f);
            else
                good = false;
            low = 0x80;
            high = 0xbf;
        }
        if (!good && fatal) {
            free(out);
            return JS_ThrowTypeError(ctx, "The encoded data was not valid for encoding utf-8");
        }
        if (!good) {
            out[n++] = 0xfffd;
        } else if (point >= 0x10000) {
            out[n++] = (uint16_t)(0xd7c0 + (point >> 10));
            out[n++] = (uint16_t)(0xdc00 + (point & 0x3ff));
        } else {
            out[n++] = (uint16_t)point;
        }
    }
    JSValue result = JS_NewStringUTF16(ctx, out, n);
    free(out);
    return result;
}

static const JSCFunctionListEntry natives[] = {
    JS_CFUNC_DEF("write", 2, native_write),
    JS_CFUNC_DEF("now", 0, native_now),
    JS_CFUNC_DEF("monotonic", 0, native_monotonic),
    JS_CFUNC_DEF("peek", 0, native_peek),
    JS_CFUNC_DEF("advance", 1, native_advance),
    JS_CFUNC_DEF("randomFill", 1, native_random_fill),
    JS_CFUNC_DEF("exit", 1, native_exit),
    JS_CFUNC_MAGIC_DEF("setIdle", 1, native_set_hook, HOOK_IDLE),
    JS_CFUNC_MAGIC_DEF("setUncaught", 1, native_set_hook, HOOK_UNCAUGHT),
    JS_CFUNC_MAGIC_DEF("setExit", 1, native_set_hook, HOOK_EXIT),
    JS_CFUNC_MAGIC_DEF("setTick", 1, native_set_hook, HOOK_TICK),
    JS_CFUNC_DEF("hostCall", 1, native_host_call),
    JS_CFUNC_DEF("files", 3, native_files),
    JS_CFUNC_DEF("compile", 3, native_compile),
    JS_CFUNC_DEF("digest", 2, native_digest),
    JS_CFUNC_MAGIC_DEF("setShow", 1, native_set_hook, HOOK_SHOW),
    JS_CFUNC_MAGIC_DEF("setSweep", 1, native_set_hook, HOOK_SWEEP),
    JS_CFUNC_MAGIC_DEF("setPlace", 1, native_set_hook, HOOK_PLACE),
    JS_CFUNC_MAGIC_DEF("setEnter", 1, native_set_hook, HOOK_ENTER),
    JS_CFUNC_MAGIC_DEF("setResolve", 1, native_set_hook, HOOK_RESOLVE),
    JS_CFUNC_MAGIC_DEF("setLoad", 1, native_set_hook, HOOK_LOAD),
    JS_CFUNC_MAGIC_DEF("setEvaluate", 1, native_set_hook, HOOK_EVALUATE),
    JS_CFUNC_MAGIC_DEF("setMeta", 1, native_set_hook, HOOK_META),
    JS_CFUNC_DEF("source", 0, native_source),
    JS_CFUNC_DEF("cell", 0, native_cell),
    JS_CFUNC_DEF("utf8Encode", 1, native_utf8_encode),
    JS_CFUNC_DEF("utf8Decode", 2, native_utf8_decode),
};

void plimsoll_add_run_natives(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, natives, sizeof natives / sizeof natives[0]);
}

void plimsoll_set_globals(JSContext *ctx, JSValueConst global)
{
    JSValue math = JS_GetPropertyStr(ctx, global, "Math");
    JS_DefinePropertyValueStr(ctx, math, "random", JS_NewCFunction(ctx, math_random, "random", 0),
                              JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JS_FreeValue(ctx, math);
    JS_DefinePropertyValueStr(ctx, global, "__plimsoll_host_call", JS_NewCFunction(ctx, native_host_call, "hostCall", 1),
                              JS_PROP_CONFIGURABLE);
}
