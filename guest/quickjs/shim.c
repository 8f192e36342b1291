/* The engine's only door: one export runs one program, three imports are all it can ask of the host.
 *
 * Build time: `wizer-initialize` starts QuickJS, evaluates the image's JavaScript and ends; the memory it leaves behind is
 * the snapshot every run starts from. Run time: a fresh copy of that memory, one call of `run`, and the instance is gone,
 * so nothing here is ever freed on purpose.
 */
#include "shim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define IMPORT(name) __attribute__((import_module("plimsoll"), import_name(name)))
#define EXPORT(name) __attribute__((export_name(name)))

/* `fd` is 1 or 2. The host keeps the first bytes of each stream and counts the rest. */
IMPORT("write") void host_write(int32_t fd, const void *data, size_t length);
/* High half: HTTP status; low half: bytes written at `response`. */
IMPORT("host_call") int64_t host_call(const void *request, size_t request_length, void *response, size_t capacity);
/* Ends the run from any depth; no guest code runs after it. */
IMPORT("exit") _Noreturn void host_exit(int32_t code);

/* The JavaScript stack lives in the linear stack, bounded well inside what the linker reserves (build/compile.rs), so that
 * every overflow is a RangeError; the remainder is for the C code below the last check. */
#define STACK_LIMIT (4 * 1024 * 1024)
/* A collection walks, and so copies, every page of the snapshot: small runs must never reach the first one. */
#define FIRST_COLLECTION (24u * 1024 * 1024)
/* Given back to the allocator when an error has to be printed, so that "out of memory" can be said. */
#define RESERVE (256 * 1024)
#define RESPONSE_CAPACITY (4 * 1024 * 1024)

static JSRuntime *runtime;
static JSContext *context;
static JSContext *compiler; /* compiles image modules; gone in the snapshot */
static void *reserve;
/* Thrown when there is no memory left to make an error (patches/zz-engine-memory-error.patch). */
JSValue plimsoll_memory_error;

static bool running; /* false while the image is built */
static int64_t start_ms;
static int64_t elapsed_ms;
static uint64_t random_state;
static const char *program; /* the text being run, for error reports */
static size_t program_length;

static JSValue idle_hook, uncaught_hook, exit_hook, import_hook, tick_hook;

/* --- clock and randomness ------------------------------------------------------------------------------------------ */

int64_t plimsoll_clock_read(void)
{
    return running ? elapsed_ms++ : 0;
}

/* The engine and libc ask for time through these two; defining them here keeps libc's own, which import WASI, out. */
int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    int64_t now = start_ms + plimsoll_clock_read();
    (void)zone;
    tv->tv_sec = now / 1000;
    tv->tv_usec = (now % 1000) * 1000;
    return 0;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t now = plimsoll_clock_read();
    if (id == CLOCK_REALTIME)
        now += start_ms;
    ts->tv_sec = now / 1000;
    ts->tv_nsec = (now % 1000) * 1000000;
    return 0;
}

/* SplitMix64. */
static uint64_t random_next(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
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
        host_write(fd, text, length);
        JS_FreeCString(ctx, text);
    } else {
        uint8_t *bytes = JS_GetUint8Array(ctx, &length, argv[1]);
        if (!bytes)
            return JS_EXCEPTION;
        host_write(fd, bytes, length);
    }
    return JS_UNDEFINED;
}

static JSValue native_now(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    (void)self;
    (void)argc;
    (void)argv;
    return JS_NewNumber(ctx, (double)(start_ms + plimsoll_clock_read()));
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
    return JS_NewNumber(ctx, (double)elapsed_ms);
}

static JSValue native_advance(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    double ms;
    (void)self;
    (void)argc;
    if (JS_ToFloat64(ctx, &ms, argv[0]))
        return JS_EXCEPTION;
    /* 2^52 ms is far past the last instant a Date can name. */
    if (running && ms > 0)
        elapsed_ms += (int64_t)ceil(fmin(ms, 0x1p52));
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
    host_exit(code & 0xff);
}

/* One setter serves all hooks; `magic` picks the slot. */
enum { HOOK_IDLE, HOOK_UNCAUGHT, HOOK_EXIT, HOOK_IMPORT, HOOK_TICK };

static JSValue native_set_hook(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv, int magic)
{
    JSValue *slots[] = { &idle_hook, &uncaught_hook, &exit_hook, &import_hook, &tick_hook };
    (void)self;
    (void)argc;
    if (!JS_IsFunction(ctx, argv[0]))
        return JS_ThrowTypeError(ctx, "a hook must be a function");
    JS_FreeValue(ctx, *slots[magic]);
    *slots[magic] = JS_DupValue(ctx, argv[0]);
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
    return program ? JS_NewStringLen(ctx, program, program_length) : JS_UNDEFINED;
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
    JS_CFUNC_MAGIC_DEF("setImport", 1, native_set_hook, HOOK_IMPORT),
    JS_CFUNC_MAGIC_DEF("setTick", 1, native_set_hook, HOOK_TICK),
    JS_CFUNC_DEF("hostCall", 1, native_host_call),
    JS_CFUNC_DEF("digest", 2, native_digest),
    JS_CFUNC_DEF("source", 0, native_source),
    JS_CFUNC_DEF("utf8Encode", 1, native_utf8_encode),
    JS_CFUNC_DEF("utf8Decode", 2, native_utf8_decode),
};

/* --- errors -------------------------------------------------------------------------------------------------------- */

static void print_error(const char *text, size_t length)
{
    host_write(2, text, length);
    host_write(2, "\n", 1);
}

static void print_property(JSContext *ctx, JSValueConst error, const char *name)
{
    size_t length;
    JSValue value = name ? JS_GetPropertyStr(ctx, error, name) : JS_DupValue(ctx, error);
    const char *text = JS_IsUndefined(value) ? NULL : JS_ToCStringLen(ctx, &length, value);
    if (text)
        print_error(text, length);
    JS_FreeCString(ctx, text);
    JS_FreeValue(ctx, value);
}

/* The answer when the JavaScript world cannot print the error itself. */
static void print_bare(JSContext *ctx, JSValueConst error)
{
    print_property(ctx, error, NULL);
    if (JS_IsError(error))
        print_property(ctx, error, "stack");
}

static _Noreturn void fail_build(JSContext *ctx, const char *where)
{
    print_error(where, strlen(where));
    JSValue error = JS_GetException(ctx);
    print_bare(ctx, error);
    host_exit(1);
}

/* Hands one error to the JavaScript world. Returns when the program may go on, ends the run otherwise. */
static void report_uncaught(JSValue error, const char *origin, JSValueConst promise)
{
    int32_t code = 1;
    free(reserve);
    reserve = NULL;
    if (JS_IsUndefined(uncaught_hook)) {
        print_bare(context, error);
        host_exit(code);
    }
    JSValue arguments[] = { error, JS_NewString(context, origin), JS_DupValue(context, promise) };
    JSValue answer = JS_Call(context, uncaught_hook, JS_UNDEFINED, 3, (JSValueConst *)arguments);
    if (JS_IsUndefined(answer)) {
        JS_FreeValue(context, arguments[0]);
        JS_FreeValue(context, arguments[1]);
        JS_FreeValue(context, arguments[2]);
        return;
    }
    if (JS_IsException(answer) || JS_ToInt32(context, &code, answer)) {
        JS_FreeValue(context, JS_GetException(context));
        print_bare(context, error);
        code = 1;
    }
    host_exit(code & 0xff);
}

/* Promises rejected without a handler, oldest first. */
static struct {
    JSValue promise, reason;
} *rejections;
static size_t rejection_count, rejection_capacity;

static void track_rejection(JSContext *ctx, JSValueConst promise, JSValueConst reason, bool handled, void *opaque)
{
    (void)opaque;
    if (!handled) {
        if (rejection_count == rejection_capacity) {
            size_t capacity = rejection_capacity ? rejection_capacity * 2 : 8;
            void *grown = realloc(rejections, capacity * sizeof *rejections);
            if (!grown) {
                /* Forgetting a rejection would report a success that did not happen. */
                print_bare(ctx, reason);
                host_exit(1);
            }
            rejections = grown;
            rejection_capacity = capacity;
        }
        rejections[rejection_count].promise = JS_DupValue(ctx, promise);
        rejections[rejection_count++].reason = JS_DupValue(ctx, reason);
        return;
    }
    for (size_t i = 0; i < rejection_count; i++) {
        if (JS_VALUE_GET_PTR(rejections[i].promise) == JS_VALUE_GET_PTR(promise)) {
            JS_FreeValue(ctx, rejections[i].promise);
            JS_FreeValue(ctx, rejections[i].reason);
            memmove(&rejections[i], &rejections[i + 1], (--rejection_count - i) * sizeof *rejections);
            return;
        }
    }
}

static void report_rejections(void)
{
    while (rejection_count > 0) {
        JSValue promise = rejections[0].promise, reason = rejections[0].reason;
        memmove(&rejections[0], &rejections[1], --rejection_count * sizeof *rejections);
        report_uncaught(reason, "unhandledRejection", promise);
        JS_FreeValue(context, promise);
    }
}

/* --- image --------------------------------------------------------------------------------------------------------- */

/* Compiles one module without its source text: written out and read back, because only the writer can leave it out. The
 * compiling context is another one, so that the module exists once in the image's. */
static JSValue compile_module(JSContext *ctx, const PlimsollModule *module)
{
    size_t size;
    JSValue compiled = JS_Eval(compiler, module->source, module->length, module->name,
                               JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
    if (JS_IsException(compiled))
        fail_build(compiler, module->name);
    uint8_t *bytes = JS_WriteObject(compiler, &size, compiled, JS_WRITE_OBJ_BYTECODE | JS_WRITE_OBJ_STRIP_SOURCE);
    if (!bytes)
        fail_build(compiler, module->name);
    JSValue read = JS_ReadObject(ctx, bytes, size, JS_READ_OBJ_BYTECODE);
    js_free(compiler, bytes);
    if (JS_IsException(read))
        fail_build(ctx, module->name);
    return read;
}

static JSModuleDef *load_module(JSContext *ctx, const char *name, void *opaque)
{
    (void)opaque;
    for (size_t i = 0; i < plimsoll_module_count; i++) {
        if (strcmp(plimsoll_modules[i].name, name) == 0) {
            JSValue module = compile_module(ctx, &plimsoll_modules[i]);
            if (JS_ResolveModule(ctx, module) < 0)
                fail_build(ctx, name);
            JSModuleDef *definition = JS_VALUE_GET_PTR(module);
            /* The context's list of loaded modules holds it from here on. */
            JS_FreeValue(ctx, module);
            return definition;
        }
    }
    JS_ThrowReferenceError(ctx, "the manifest names no module '%s'", name);
    return NULL;
}

static char *refuse_import(JSContext *ctx, const char *specifier)
{
    if (JS_IsUndefined(import_hook)) {
        JS_ThrowTypeError(ctx, "Cannot import '%s': a snippet has no modules", specifier);
        return NULL;
    }
    JSValue argument = JS_NewString(ctx, specifier);
    JSValue answer = JS_Call(ctx, import_hook, JS_UNDEFINED, 1, (JSValueConst *)&argument);
    JS_FreeValue(ctx, argument);
    if (!JS_IsException(answer)) {
        JS_FreeValue(ctx, answer);
        JS_ThrowTypeError(ctx, "Cannot import '%s': a snippet has no modules", specifier);
    }
    return NULL;
}

/* Image modules may name each other relatively; a program may name nothing. */
static char *normalize_name(JSContext *ctx, const char *base, const char *specifier, void *opaque)
{
    (void)opaque;
    if (running)
        return refuse_import(ctx, specifier);
    const char *slash = strrchr(base, '/');
    size_t folder = specifier[0] == '.' && slash ? (size_t)(slash - base) + 1 : 0;
    char *name = js_malloc(ctx, folder + strlen(specifier) + 1);
    if (!name)
        return NULL;
    memcpy(name, base, folder);
    while (specifier[0] == '.') {
        if (strncmp(specifier, "./", 2) == 0) {
            specifier += 2;
        } else if (strncmp(specifier, "../", 3) == 0) {
            specifier += 3;
            if (folder > 0)
                folder--;
            while (folder > 0 && name[folder - 1] != '/')
                folder--;
        } else {
            break;
        }
    }
    strcpy(name + folder, specifier);
    return name;
}

/* Returns whether there was any job. */
static bool drain_jobs(void)
{
    JSContext *ctx;
    int more;
    bool any = false;
    while ((more = JS_ExecutePendingJob(runtime, &ctx)) != 0) {
        if (more < 0) {
            if (!running)
                fail_build(ctx, "a job of the image threw");
            report_uncaught(JS_GetException(ctx), "uncaughtException", JS_UNDEFINED);
        }
        any = true;
    }
    return any;
}

/* Runs the `process.nextTick` queue; returns whether it held anything. */
static bool run_ticks(void)
{
    if (JS_IsUndefined(tick_hook))
        return false;
    JSValue any = JS_Call(context, tick_hook, JS_UNDEFINED, 0, NULL);
    if (JS_IsException(any)) {
        report_uncaught(JS_GetException(context), "uncaughtException", JS_UNDEFINED);
        return true;
    }
    return JS_ToBool(context, any) == 1;
}

/* Ticks go ahead of jobs, and again whenever the jobs have run dry. */
static void drain(void)
{
    bool ticked, ran;
    do {
        ticked = run_ticks();
        ran = drain_jobs();
    } while (ticked || ran);
}

/* Freed memory still holds what lay in it; wiped, it costs the snapshot nothing. */
static void wipe_free_memory(void)
{
    size_t pages = __builtin_wasm_memory_size(0);
    void **taken = NULL;
    for (size_t size = 1 << 20; size >= 64; size /= 2) {
        void **block;
        while ((block = malloc(size)) && __builtin_wasm_memory_size(0) == pages) {
            memset(block, 0, size);
            *block = taken;
            taken = (void *)block;
        }
        /* Nothing of this size is left: the heap grew by it instead. */
        free(block);
        pages = __builtin_wasm_memory_size(0);
    }
    while (taken) {
        void **next = *taken;
        *taken = NULL;
        free(taken);
        taken = next;
    }
}

EXPORT("wizer-initialize") void initialize(void)
{
    runtime = JS_NewRuntime();
    JS_SetMaxStackSize(runtime, STACK_LIMIT);
    JS_SetCanBlock(runtime, false);
    JS_SetHostPromiseRejectionTracker(runtime, track_rejection, NULL);
    JS_SetModuleLoaderFunc(runtime, normalize_name, load_module, NULL);
    context = JS_NewContext(runtime);
    compiler = JS_NewContext(runtime);
    idle_hook = uncaught_hook = exit_hook = import_hook = tick_hook = JS_UNDEFINED;

    JS_ThrowRangeError(context, "out of memory");
    plimsoll_memory_error = JS_GetException(context);

    JSValue global = JS_GetGlobalObject(context);
    JSValue math = JS_GetPropertyStr(context, global, "Math");
    JS_DefinePropertyValueStr(context, math, "random", JS_NewCFunction(context, math_random, "random", 0),
                              JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    JS_FreeValue(context, math);
    JS_DefinePropertyValueStr(context, global, "__plimsoll_host_call",
                              JS_NewCFunction(context, native_host_call, "hostCall", 1), JS_PROP_CONFIGURABLE);
    JSValue native = JS_NewObject(context);
    JS_SetPropertyFunctionList(context, native, natives, sizeof natives / sizeof natives[0]);
    plimsoll_add_natives(context, native);
    JS_DefinePropertyValueStr(context, global, "__native", native, JS_PROP_CONFIGURABLE);

    JSValue entry = compile_module(context, &plimsoll_modules[0]);
    if (JS_ResolveModule(context, entry) < 0)
        fail_build(context, "an import of the entry module failed");
    JSValue outcome = JS_EvalFunction(context, entry);
    if (JS_IsException(outcome))
        fail_build(context, "the entry module threw");
    drain_jobs();
    if (JS_PromiseState(context, outcome) == JS_PROMISE_REJECTED) {
        JS_Throw(context, JS_PromiseResult(context, outcome));
        fail_build(context, "the entry module threw");
    }
    if (JS_PromiseState(context, outcome) == JS_PROMISE_PENDING)
        fail_build(context, "the entry module waits for something that never comes");
    if (rejection_count > 0) {
        JS_Throw(context, rejections[0].reason);
        fail_build(context, "the image left a rejected promise");
    }
    JS_FreeValue(context, outcome);

    JSAtom name = JS_NewAtom(context, "__native");
    JS_DeleteProperty(context, global, name, 0);
    JS_FreeAtom(context, name);
    JS_FreeValue(context, global);
    JS_FreeContext(compiler);
    compiler = NULL;
    JS_RunGC(runtime);
    JS_SetGCThreshold(runtime, FIRST_COLLECTION);
    for (size_t i = 0; i < plimsoll_module_count; i++)
        memset(plimsoll_modules[i].source, 0, plimsoll_modules[i].length);
    wipe_free_memory();
    reserve = malloc(RESERVE);
    if (!reserve)
        host_exit(1);
}

/* --- run ----------------------------------------------------------------------------------------------------------- */

EXPORT("alloc") void *alloc(size_t length)
{
    /* The compiler reads one NUL past the text. */
    return malloc(length + 1);
}

/* Compiles the program as a script; if it does not parse and may hold a top-level `await`, in async-global mode. When
 * neither parses, the second error is told: the first may be no more than the `await`. */
static JSValue compile_program(const char *code, size_t length, bool *is_async)
{
    int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_COMPILE_ONLY;
    JSValue compiled = JS_Eval(context, code, length, "main.js", flags);
    *is_async = false;
    if (!JS_IsException(compiled) || !strstr(code, "await"))
        return compiled;
    JSValue first = JS_GetException(context);
    compiled = JS_Eval(context, code, length, "main.js", flags | JS_EVAL_FLAG_ASYNC);
    if (!JS_IsException(compiled)) {
        JS_FreeValue(context, first);
        *is_async = true;
    }
    return compiled;
}

/* Runs one program to its end and returns its exit code. `code` comes from `alloc`. */
EXPORT("run") int32_t run(char *code, size_t length, int64_t start, int64_t seed)
{
    running = true;
    start_ms = start;
    random_state = (uint64_t)seed;
    code[length] = '\0';
    program = code;
    program_length = length;
    JS_UpdateStackTop(runtime);

    bool is_async;
    JSValue waiting = JS_UNDEFINED; /* the promise of an async program, while it is pending */
    JSValue compiled = compile_program(code, length, &is_async);
    if (JS_IsException(compiled)) {
        report_uncaught(JS_GetException(context), "syntaxError", JS_UNDEFINED);
        return 1;
    }
    JSValue value = JS_EvalFunction(context, compiled);
    if (JS_IsException(value)) {
        report_uncaught(JS_GetException(context), "uncaughtException", JS_UNDEFINED);
    } else if (is_async) {
        waiting = value;
        JS_PromiseMarkAsHandled(context, waiting);
        /* It may have been rejected before its first `await`; the loop below reports it. */
        track_rejection(context, waiting, JS_UNDEFINED, true, NULL);
    }

    for (;;) {
        drain();
        if (!JS_IsUndefined(waiting) && JS_PromiseState(context, waiting) != JS_PROMISE_PENDING) {
            JSValue promise = waiting;
            waiting = JS_UNDEFINED;
            if (JS_PromiseState(context, promise) == JS_PROMISE_REJECTED)
                report_uncaught(JS_PromiseResult(context, promise), "uncaughtException", JS_UNDEFINED);
        }
        report_rejections();
        if (JS_IsJobPending(runtime))
            continue;
        if (JS_IsUndefined(idle_hook))
            break;
        JSValue more = JS_Call(context, idle_hook, JS_UNDEFINED, 0, NULL);
        if (JS_IsException(more)) {
            report_uncaught(JS_GetException(context), "uncaughtException", JS_UNDEFINED);
            continue;
        }
        /* The hook itself may leave jobs behind. */
        if (!JS_ToBool(context, more) && !JS_IsJobPending(runtime))
            break;
    }

    int32_t code_out = JS_IsUndefined(waiting) ? 0 : 13;
    if (!JS_IsUndefined(exit_hook)) {
        JSValue argument = JS_NewInt32(context, code_out);
        JSValue answer = JS_Call(context, exit_hook, JS_UNDEFINED, 1, (JSValueConst *)&argument);
        if (JS_IsException(answer) || JS_ToInt32(context, &code_out, answer)) {
            report_uncaught(JS_GetException(context), "uncaughtException", JS_UNDEFINED);
            code_out = 1;
        }
    }
    return code_out & 0xff;
}
