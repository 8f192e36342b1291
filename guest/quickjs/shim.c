/* The engine's only door: one export runs one program, another one cell of a session after the other, and four imports are all
 * they can ask of the host.
 *
 * Build time: `wizer-initialize` starts QuickJS, evaluates the image's JavaScript and ends; the memory it leaves behind is
 * the snapshot every instance starts from. Run time: a fresh copy of that memory and one call of `run`, after which the instance
 * is gone, so a run frees nothing on purpose; or calls of `cell`, which free what they take.
 */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(name)))

/* The JavaScript stack lives in the linear stack, bounded well inside what the linker reserves (build/compile.rs), so that
 * every overflow is a RangeError; the remainder is for the C code below the last check. */
#define STACK_LIMIT (4 * 1024 * 1024)
/* A collection walks, and so copies, every page of the snapshot: small runs must never reach the first one. */
#define FIRST_COLLECTION (24u * 1024 * 1024)
/* Places in the table of modules. */
enum { PROGRAM_ENTRY, KERNEL_ENTRY };
/* Given back to the allocator when an error has to be printed, so that "out of memory" can be said. */
#define RESERVE (256 * 1024)

static JSRuntime *runtime;
static JSContext *context; /* the program's realm */
/* The realm of what must work whatever a program does to its own intrinsics: printing and the event loop. */
static JSContext *kernel;
static JSContext *compiler; /* compiles image modules; gone in the snapshot */
static void *reserve;
/* Thrown when there is no memory left to make an error (patches/zz-engine-memory-error.patch). */
JSValue plimsoll_memory_error;

/* --- errors -------------------------------------------------------------------------------------------------------- */

static void print_error(const char *text, size_t length)
{
    plimsoll_host_write(2, text, length);
    plimsoll_host_write(2, "\n", 1);
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
    plimsoll_host_exit(1);
}

/* Hands one error to the JavaScript world. Returns when the program may go on, ends the run otherwise. */
static void report_uncaught(JSValue error, const char *origin, JSValueConst promise)
{
    int32_t code = 1;
    free(reserve);
    reserve = NULL;
    if (JS_IsUndefined(plimsoll_hooks[HOOK_UNCAUGHT])) {
        print_bare(context, error);
        plimsoll_host_exit(code);
    }
    JSValue arguments[] = { error, JS_NewString(context, origin), JS_DupValue(context, promise) };
    JSValue answer = JS_Call(context, plimsoll_hooks[HOOK_UNCAUGHT], JS_UNDEFINED, 3, (JSValueConst *)arguments);
    if (JS_IsException(answer) && plimsoll_run.cell > 0) {
        JS_FreeValue(context, JS_GetException(context));
        print_bare(context, error);
        answer = JS_UNDEFINED;
    }
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
    plimsoll_host_exit(code & 0xff);
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
                plimsoll_host_exit(1);
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
            if (plimsoll_modules[i].kernel)
                return plimsoll_modules[i].kernel;
            JSValue module = compile_module(ctx, &plimsoll_modules[i]);
            if (ctx == kernel)
                plimsoll_modules[i].kernel = JS_VALUE_GET_PTR(module);
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
    if (JS_IsUndefined(plimsoll_hooks[HOOK_IMPORT])) {
        JS_ThrowTypeError(ctx, "Cannot import '%s': a snippet has no modules", specifier);
        return NULL;
    }
    JSValue argument = JS_NewString(ctx, specifier);
    JSValue answer = JS_Call(ctx, plimsoll_hooks[HOOK_IMPORT], JS_UNDEFINED, 1, (JSValueConst *)&argument);
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
    if (plimsoll_run.running)
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
            if (!plimsoll_run.running)
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
    if (JS_IsUndefined(plimsoll_hooks[HOOK_TICK]))
        return false;
    JSValue any = JS_Call(context, plimsoll_hooks[HOOK_TICK], JS_UNDEFINED, 0, NULL);
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

static void add_natives(JSContext *ctx, JSValueConst global)
{
    JSValue native = JS_NewObject(ctx);
    plimsoll_add_run_natives(ctx, native);
    plimsoll_add_natives(ctx, native);
    JS_DefinePropertyValueStr(ctx, global, "__native", native, JS_PROP_CONFIGURABLE);
}

static void delete_global(JSContext *ctx, const char *name)
{
    JSValue global = JS_GetGlobalObject(ctx);
    JSAtom atom = JS_NewAtom(ctx, name);
    JS_DeleteProperty(ctx, global, atom, 0);
    JS_FreeAtom(ctx, atom);
    JS_FreeValue(ctx, global);
}

/* A realm with the intrinsics its modules use. */
static JSContext *new_kernel(void)
{
    JSContext *ctx = JS_NewContextRaw(runtime);
    JS_AddIntrinsicBaseObjects(ctx);
    JS_AddIntrinsicDate(ctx);
    JS_AddIntrinsicEval(ctx);
    JS_AddIntrinsicRegExp(ctx);
    JS_AddIntrinsicMapSet(ctx);
    JS_AddIntrinsicTypedArrays(ctx);
    JS_AddIntrinsicPromise(ctx);
    return ctx;
}

/* The kernel throws errors of the program's classes, for programs catch them. `program` is the other realm's global object;
 * the kernel's modules take from it what they hand out. */
static void prepare_kernel(JSValueConst program)
{
    static const char *const errors[] = {
        "Error", "AggregateError", "EvalError", "InternalError", "RangeError", "ReferenceError", "SuppressedError",
        "SyntaxError", "TypeError", "URIError",
    };
    JSValue global = JS_GetGlobalObject(kernel);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        JS_SetPropertyStr(kernel, global, errors[i], JS_GetPropertyStr(context, program, errors[i]));
    plimsoll_share_errors(kernel, context);
    JS_DefinePropertyValueStr(kernel, global, "__program", JS_DupValue(context, program), JS_PROP_CONFIGURABLE);
    add_natives(kernel, global);
    JS_FreeValue(kernel, global);
}

static void evaluate_entry(JSContext *ctx, PlimsollModule *module)
{
    JSValue entry = compile_module(ctx, module);
    if (ctx == kernel)
        module->kernel = JS_VALUE_GET_PTR(entry);
    if (JS_ResolveModule(ctx, entry) < 0)
        fail_build(ctx, "an import of the entry module failed");
    JSValue outcome = JS_EvalFunction(ctx, entry);
    if (JS_IsException(outcome))
        fail_build(ctx, "the entry module threw");
    drain_jobs();
    if (JS_PromiseState(ctx, outcome) == JS_PROMISE_REJECTED) {
        JS_Throw(ctx, JS_PromiseResult(ctx, outcome));
        fail_build(ctx, "the entry module threw");
    }
    if (JS_PromiseState(ctx, outcome) == JS_PROMISE_PENDING)
        fail_build(ctx, "the entry module waits for something that never comes");
    JS_FreeValue(ctx, outcome);
}

EXPORT("wizer-initialize") void initialize(void)
{
    runtime = JS_NewRuntime();
    JS_SetMaxStackSize(runtime, STACK_LIMIT);
    JS_SetCanBlock(runtime, false);
    JS_SetHostPromiseRejectionTracker(runtime, track_rejection, NULL);
    JS_SetModuleLoaderFunc(runtime, normalize_name, load_module, NULL);
    context = JS_NewContext(runtime);
    kernel = new_kernel();
    compiler = JS_NewContext(runtime);
    for (size_t i = 0; i < HOOK_COUNT; i++)
        plimsoll_hooks[i] = JS_UNDEFINED;

    JS_ThrowRangeError(context, "out of memory");
    plimsoll_memory_error = JS_GetException(context);

    JSValue global = JS_GetGlobalObject(context);
    plimsoll_set_globals(context, global);
    prepare_kernel(global);
    add_natives(context, global);
    evaluate_entry(kernel, &plimsoll_modules[KERNEL_ENTRY]);
    /* Who gets hold of one of its functions makes no new ones by its constructor. */
    plimsoll_forbid_eval(kernel);
    evaluate_entry(context, &plimsoll_modules[PROGRAM_ENTRY]);
    if (rejection_count > 0) {
        JS_Throw(context, rejections[0].reason);
        fail_build(context, "the image left a rejected promise");
    }
    delete_global(context, "__native");
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
        plimsoll_host_exit(1);
}

/* --- run ----------------------------------------------------------------------------------------------------------- */

EXPORT("alloc") void *alloc(size_t length)
{
    /* The compiler reads one NUL past the text. */
    return malloc(length + 1);
}

/* Scripts that run before the program, in this order: the client of a grant and the operator's preamble. Each is a script of
 * its own, so the program's first line stays its first line. */
static struct {
    const char *name;
    char *code;
    size_t length;
} preludes[] = {{"host.js", NULL, 0}, {"preamble.js", NULL, 0}};

/* Hands over one of them before `run`; `code` comes from `alloc`. */
EXPORT("prelude") void prelude(char *code, size_t length, uint32_t which)
{
    if (which >= sizeof preludes / sizeof preludes[0])
        return;
    code[length] = '\0';
    preludes[which].code = code;
    preludes[which].length = length;
}

static void run_preludes(void)
{
    for (size_t i = 0; i < sizeof preludes / sizeof preludes[0]; i++) {
        if (!preludes[i].code)
            continue;
        JSValue value = JS_Eval(context, preludes[i].code, preludes[i].length, preludes[i].name, JS_EVAL_TYPE_GLOBAL);
        if (JS_IsException(value))
            report_uncaught(JS_GetException(context), "uncaughtException", JS_UNDEFINED);
        JS_FreeValue(context, value);
    }
}

/* Compiles the program in async-global mode if it awaits something at its top level, as a script otherwise. What parses as a
 * script may still await: to a script, `await (x)` is the call of a function. When neither parses, the error of the
 * async-global mode is told: the script's may be no more than the `await`. */
static JSValue compile_program(const char *code, size_t length, bool *is_async)
{
    int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_COMPILE_ONLY;
    const char *name = plimsoll_run.name;
    *is_async = false;
    if (!strstr(code, "await"))
        return JS_Eval(context, code, length, name, flags);
    JSValue awaiting = JS_Eval(context, code, length, name, flags | JS_EVAL_FLAG_ASYNC);
    if (plimsoll_program_awaits(awaiting)) {
        *is_async = true;
        return awaiting;
    }
    JSValue error = JS_IsException(awaiting) ? JS_GetException(context) : JS_UNDEFINED;
    JSValue script = JS_Eval(context, code, length, name, flags);
    if (!JS_IsException(script)) {
        JS_FreeValue(context, awaiting);
        JS_FreeValue(context, error);
        return script;
    }
    JS_FreeValue(context, JS_GetException(context));
    if (JS_IsException(awaiting))
        return JS_Throw(context, error);
    *is_async = true;
    return awaiting;
}

/* Makes `code`, which comes from `alloc`, the text that runs from here on. */
static void begin(char *code, size_t length, const char *name)
{
    code[length] = '\0';
    plimsoll_run.running = true;
    plimsoll_run.name = name;
    plimsoll_run.program = code;
    plimsoll_run.program_length = length;
    JS_UpdateStackTop(runtime);
}

/* The promise of a program is asked for its state; its rejection is reported by who asks. */
static void watch(JSValueConst promise)
{
    JS_PromiseMarkAsHandled(context, promise);
    /* It may have been rejected before its first `await`. */
    track_rejection(context, promise, JS_UNDEFINED, true, NULL);
}

/* Runs one macrotask; false if there was none and nothing else is left to do. */
static bool next_task(void)
{
    if (JS_IsJobPending(runtime))
        return true;
    if (JS_IsUndefined(plimsoll_hooks[HOOK_IDLE]))
        return false;
    JSValue more = JS_Call(context, plimsoll_hooks[HOOK_IDLE], JS_UNDEFINED, 0, NULL);
    if (JS_IsException(more)) {
        report_uncaught(JS_GetException(context), "uncaughtException", JS_UNDEFINED);
        return true;
    }
    /* The hook itself may leave jobs behind. */
    return JS_ToBool(context, more) || JS_IsJobPending(runtime);
}

/* Runs one program to its end and returns its exit code. `code` comes from `alloc`. */
EXPORT("run") int32_t run(char *code, size_t length, int64_t start, int64_t seed)
{
    plimsoll_run.start_ms = start;
    plimsoll_run.random_state = (uint64_t)seed;
    begin(code, length, "main.js");
    run_preludes();

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
        watch(waiting);
    }

    do {
        drain();
        if (!JS_IsUndefined(waiting) && JS_PromiseState(context, waiting) != JS_PROMISE_PENDING) {
            JSValue promise = waiting;
            waiting = JS_UNDEFINED;
            if (JS_PromiseState(context, promise) == JS_PROMISE_REJECTED)
                report_uncaught(JS_PromiseResult(context, promise), "uncaughtException", JS_UNDEFINED);
        }
        report_rejections();
    } while (next_task());

    int32_t code_out = JS_IsUndefined(waiting) ? 0 : 13;
    if (!JS_IsUndefined(plimsoll_hooks[HOOK_EXIT])) {
        JSValue argument = JS_NewInt32(context, code_out);
        JSValue answer = JS_Call(context, plimsoll_hooks[HOOK_EXIT], JS_UNDEFINED, 1, (JSValueConst *)&argument);
        if (JS_IsException(answer) || JS_ToInt32(context, &code_out, answer)) {
            report_uncaught(JS_GetException(context), "uncaughtException", JS_UNDEFINED);
            code_out = 1;
        }
    }
    return code_out & 0xff;
}

/* --- cells --------------------------------------------------------------------------------------------------------- */

/* How a cell ended: the answer of `cell`. */
enum { CELL_RAN = 0, CELL_RAISED = 1, CELL_NEVER_SETTLED = 13 };

static int32_t raised(const char *origin)
{
    report_uncaught(JS_GetException(context), origin, JS_UNDEFINED);
    return CELL_RAISED;
}

/* Waits for a promise: everything queued runs until it has settled. `*promise` becomes what it was fulfilled with. */
static int32_t settle(JSValue *promise)
{
    JSValue settled = *promise;
    *promise = JS_UNDEFINED;
    watch(settled);
    while (JS_PromiseState(context, settled) == JS_PROMISE_PENDING) {
        report_rejections();
        if (!next_task()) {
            static const char warning[] = "Warning: Detected unsettled top-level await";
            print_error(warning, sizeof warning - 1);
            JS_FreeValue(context, settled);
            return CELL_NEVER_SETTLED;
        }
        drain();
    }
    bool rejected = JS_PromiseState(context, settled) == JS_PROMISE_REJECTED;
    JSValue result = JS_PromiseResult(context, settled);
    JS_FreeValue(context, settled);
    if (rejected) {
        JS_Throw(context, result);
        return raised("cell");
    }
    *promise = result;
    return CELL_RAN;
}

/* Keeps the cell's value under the name `_` and shows it. */
static int32_t show(JSValue value)
{
    if (JS_IsUndefined(value))
        return CELL_RAN;
    JSValue global = JS_GetGlobalObject(context);
    if (JS_SetPropertyStr(context, global, "_", JS_DupValue(context, value)) < 0)
        JS_FreeValue(context, JS_GetException(context));
    JS_FreeValue(context, global);
    JSValue shown = JS_Call(context, plimsoll_hooks[HOOK_SHOW], JS_UNDEFINED, 1, (JSValueConst *)&value);
    JS_FreeValue(context, value);
    if (JS_IsException(shown))
        return raised("cell");
    JS_FreeValue(context, shown);
    return CELL_RAN;
}

static int32_t evaluate_cell(const char *code, size_t length)
{
    bool is_async;
    plimsoll_compiles_cell = true;
    JSValue compiled = compile_program(code, length, &is_async);
    plimsoll_compiles_cell = false;
    if (JS_IsException(compiled))
        return raised("syntaxError");
    JSValue value = JS_EvalFunction(context, compiled);
    if (JS_IsException(value))
        return raised("cell");
    drain();
    if (is_async) {
        /* The engine wraps the value of an async program, so that it may be a promise itself. */
        int32_t ended = settle(&value);
        if (ended != CELL_RAN)
            return ended;
        JSValue wrapped = value;
        value = JS_GetPropertyStr(context, wrapped, "value");
        JS_FreeValue(context, wrapped);
        if (JS_IsException(value))
            return raised("cell");
    }
    if ((int)JS_PromiseState(context, value) >= 0) {
        int32_t ended = settle(&value);
        if (ended != CELL_RAN)
            return ended;
    }
    report_rejections();
    return show(value);
}

/* Runs one cell: what it defines stays for the next, what it started and did not wait for ends with it. Clock and randomness
 * begin with the first cell and go on. `code` comes from `alloc`, `number` counts from 1. */
EXPORT("cell") int32_t cell(char *code, size_t length, uint32_t number, int64_t start, int64_t seed)
{
    static char name[32];
    if (plimsoll_run.cell == 0) {
        plimsoll_run.start_ms = start;
        plimsoll_run.random_state = (uint64_t)seed;
    }
    plimsoll_run.cell = number;
    snprintf(name, sizeof name, "cell%u.js", (unsigned)number);
    begin(code, length, name);
    int32_t ended = evaluate_cell(code, length);
    drain();
    report_rejections();
    if (JS_IsException(JS_Call(context, plimsoll_hooks[HOOK_SWEEP], JS_UNDEFINED, 0, NULL)))
        JS_FreeValue(context, JS_GetException(context));
    plimsoll_run.program = NULL;
    free(code);
    if (!reserve)
        reserve = malloc(RESERVE);
    return ended;
}
