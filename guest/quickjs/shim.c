/* The image: what every instance starts from.
 *
 * Build time: `wizer-initialize` starts QuickJS, evaluates the image's JavaScript and ends; the memory it leaves behind is
 * the snapshot. Run time: a fresh copy of that memory and the exports of run.c and cells.c; four imports are all they can ask
 * of the host.
 */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* The JavaScript stack lives in the linear stack, bounded well inside what the linker reserves (build/compile.rs), so that
 * every overflow is a RangeError; the remainder is for the C code below the last check. */
#define STACK_LIMIT (4 * 1024 * 1024)
/* A collection walks, and so copies, every page of the snapshot: small runs must never reach the first one. */
#define FIRST_COLLECTION (24u * 1024 * 1024)
/* Places in the table of modules. */
enum { PROGRAM_ENTRY, KERNEL_ENTRY };

JSRuntime *plimsoll_runtime;
JSContext *plimsoll_context, *plimsoll_kernel, *plimsoll_compiler;
JSValue plimsoll_memory_error;

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
    JSContext *ctx = JS_NewContextRaw(plimsoll_runtime);
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
    JSValue global = JS_GetGlobalObject(plimsoll_kernel);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        JS_SetPropertyStr(plimsoll_kernel, global, errors[i],
                          JS_GetPropertyStr(plimsoll_context, program, errors[i]));
    plimsoll_share_errors(plimsoll_kernel, plimsoll_context);
    JS_DefinePropertyValueStr(plimsoll_kernel, global, "__program", JS_DupValue(plimsoll_context, program),
                              JS_PROP_CONFIGURABLE);
    add_natives(plimsoll_kernel, global);
    JS_FreeValue(plimsoll_kernel, global);
}

static void evaluate_entry(JSContext *ctx, PlimsollModule *module)
{
    JSValue entry = plimsoll_compile_image_module(ctx, module);
    if (ctx == plimsoll_kernel)
        module->kernel = JS_VALUE_GET_PTR(entry);
    if (JS_ResolveModule(ctx, entry) < 0)
        plimsoll_fail_build(ctx, "an import of the entry module failed");
    JSValue outcome = JS_EvalFunction(ctx, entry);
    if (JS_IsException(outcome))
        plimsoll_fail_build(ctx, "the entry module threw");
    plimsoll_drain_jobs();
    if (JS_PromiseState(ctx, outcome) == JS_PROMISE_REJECTED) {
        JS_Throw(ctx, JS_PromiseResult(ctx, outcome));
        plimsoll_fail_build(ctx, "the entry module threw");
    }
    if (JS_PromiseState(ctx, outcome) == JS_PROMISE_PENDING)
        plimsoll_fail_build(ctx, "the entry module waits for something that never comes");
    JS_FreeValue(ctx, outcome);
}

EXPORT("wizer-initialize") void initialize(void)
{
    plimsoll_runtime = JS_NewRuntime();
    JS_SetMaxStackSize(plimsoll_runtime, STACK_LIMIT);
    JS_SetCanBlock(plimsoll_runtime, false);
    JS_SetHostPromiseRejectionTracker(plimsoll_runtime, plimsoll_track_rejection, NULL);
    plimsoll_set_module_loader(plimsoll_runtime);
    plimsoll_context = JS_NewContext(plimsoll_runtime);
    plimsoll_kernel = new_kernel();
    plimsoll_compiler = JS_NewContext(plimsoll_runtime);
    for (size_t i = 0; i < HOOK_COUNT; i++)
        plimsoll_hooks[i] = JS_UNDEFINED;

    JS_ThrowRangeError(plimsoll_context, "out of memory");
    plimsoll_memory_error = JS_GetException(plimsoll_context);

    JSValue global = JS_GetGlobalObject(plimsoll_context);
    plimsoll_set_globals(plimsoll_context, global);
    prepare_kernel(global);
    add_natives(plimsoll_context, global);
    evaluate_entry(plimsoll_kernel, &plimsoll_modules[KERNEL_ENTRY]);
    /* Who gets hold of one of its functions makes no new ones by its constructor. */
    plimsoll_forbid_eval(plimsoll_kernel);
    evaluate_entry(plimsoll_context, &plimsoll_modules[PROGRAM_ENTRY]);
    if (plimsoll_has_rejections())
        plimsoll_fail_build(plimsoll_context, "the image left a rejected promise");
    delete_global(plimsoll_context, "__native");
    JS_FreeValue(plimsoll_context, global);
    JS_FreeContext(plimsoll_compiler);
    plimsoll_compiler = NULL;
    JS_RunGC(plimsoll_runtime);
    JS_SetGCThreshold(plimsoll_runtime, FIRST_COLLECTION);
    for (size_t i = 0; i < plimsoll_module_count; i++)
        memset(plimsoll_modules[i].source, 0, plimsoll_modules[i].length);
    wipe_free_memory();
    if (!plimsoll_reserve())
        plimsoll_host_exit(1);
}
