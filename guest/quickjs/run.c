/* One program in one instance, which is gone afterwards: so a run frees nothing on purpose. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* Returns whether there was any job. */
bool plimsoll_drain_jobs(void)
{
    JSContext *ctx;
    int more;
    bool any = false;
    while ((more = JS_ExecutePendingJob(plimsoll_runtime, &ctx)) != 0) {
        if (more < 0) {
            if (!plimsoll_run.running)
                plimsoll_fail_build(ctx, "a job of the image threw");
            plimsoll_report_uncaught(JS_GetException(ctx), "uncaughtException", JS_UNDEFINED);
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
    JSValue any = JS_Call(plimsoll_context, plimsoll_hooks[HOOK_TICK], JS_UNDEFINED, 0, NULL);
    if (JS_IsException(any)) {
        plimsoll_report_uncaught(JS_GetException(plimsoll_context), "uncaughtException", JS_UNDEFINED);
        return true;
    }
    return JS_ToBool(plimsoll_context, any) == 1;
}

/* Ticks go ahead of jobs, and again whenever the jobs have run dry. */
void plimsoll_drain(void)
{
    bool ticked, ran;
    do {
        ticked = run_ticks();
        ran = plimsoll_drain_jobs();
    } while (ticked || ran);
}

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
        JSValue value = JS_Eval(plimsoll_context, preludes[i].code, preludes[i].length, preludes[i].name, JS_EVAL_TYPE_GLOBAL);
        if (JS_IsException(value))
            plimsoll_report_uncaught(JS_GetException(plimsoll_context), "uncaughtException", JS_UNDEFINED);
        JS_FreeValue(plimsoll_context, value);
    }
}

/* Compiles the program in async-global mode if it awaits something at its top level, as a script otherwise. What parses as a
 * script may still await: to a script, `await (x)` is the call of a function. When neither parses, the error of the
 * async-global mode is told: the script's may be no more than the `await`. */
JSValue plimsoll_compile_program(const char *code, size_t length, bool *is_async)
{
    int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_COMPILE_ONLY;
    const char *name = plimsoll_run.name;
    *is_async = false;
    if (!strstr(code, "await"))
        return JS_Eval(plimsoll_context, code, length, name, flags);
    JSValue awaiting = JS_Eval(plimsoll_context, code, length, name, flags | JS_EVAL_FLAG_ASYNC);
    if (plimsoll_program_awaits(awaiting)) {
        *is_async = true;
        return awaiting;
    }
    JSValue error = JS_IsException(awaiting) ? JS_GetException(plimsoll_context) : JS_UNDEFINED;
    JSValue script = JS_Eval(plimsoll_context, code, length, name, flags);
    if (!JS_IsException(script)) {
        JS_FreeValue(plimsoll_context, awaiting);
        JS_FreeValue(plimsoll_context, error);
        return script;
    }
    JS_FreeValue(plimsoll_context, JS_GetException(plimsoll_context));
    if (JS_IsException(awaiting))
        return JS_Throw(plimsoll_context, error);
    *is_async = true;
    return awaiting;
}

/* Makes `code`, which comes from `alloc`, the text that runs from here on. */
void plimsoll_begin(char *code, size_t length, const char *name)
{
    code[length] = '\0';
    plimsoll_run.running = true;
    plimsoll_run.name = name;
    plimsoll_run.program = code;
    plimsoll_run.program_length = length;
    JS_UpdateStackTop(plimsoll_runtime);
}

/* Tells the JavaScript world, once, that there are files. */
void plimsoll_place(void)
{
    static bool placed;
    if (placed || !plimsoll_has_files())
        return;
    placed = true;
    if (JS_IsException(JS_Call(plimsoll_context, plimsoll_hooks[HOOK_PLACE], JS_UNDEFINED, 0, NULL)))
        plimsoll_report_uncaught(JS_GetException(plimsoll_context), "uncaughtException", JS_UNDEFINED);
}

/* Runs one macrotask; false if there was none and nothing else is left to do. */
bool plimsoll_next_task(void)
{
    if (JS_IsJobPending(plimsoll_runtime))
        return true;
    if (JS_IsUndefined(plimsoll_hooks[HOOK_IDLE]))
        return false;
    JSValue more = JS_Call(plimsoll_context, plimsoll_hooks[HOOK_IDLE], JS_UNDEFINED, 0, NULL);
    if (JS_IsException(more)) {
        plimsoll_report_uncaught(JS_GetException(plimsoll_context), "uncaughtException", JS_UNDEFINED);
        return true;
    }
    /* The hook itself may leave jobs behind. */
    return JS_ToBool(plimsoll_context, more) || JS_IsJobPending(plimsoll_runtime);
}

/* Runs what is queued to its end, and answers the exit code. `waiting` is the promise of the program, if it has one. */
static int32_t finish(JSValue waiting)
{
    JSContext *ctx = plimsoll_context;
    do {
        plimsoll_drain();
        if (!JS_IsUndefined(waiting) && JS_PromiseState(ctx, waiting) != JS_PROMISE_PENDING) {
            JSValue promise = waiting;
            waiting = JS_UNDEFINED;
            if (JS_PromiseState(ctx, promise) == JS_PROMISE_REJECTED)
                plimsoll_report_uncaught(JS_PromiseResult(ctx, promise), "uncaughtException", JS_UNDEFINED);
        }
        plimsoll_report_rejections();
    } while (plimsoll_next_task());

    int32_t code = JS_IsUndefined(waiting) ? 0 : 13;
    if (!JS_IsUndefined(plimsoll_hooks[HOOK_EXIT])) {
        JSValue argument = JS_NewInt32(ctx, code);
        JSValue answer = JS_Call(ctx, plimsoll_hooks[HOOK_EXIT], JS_UNDEFINED, 1, (JSValueConst *)&argument);
        if (JS_IsException(answer) || JS_ToInt32(ctx, &code, answer)) {
            plimsoll_report_uncaught(JS_GetException(ctx), "uncaughtException", JS_UNDEFINED);
            code = 1;
        }
    }
    return code & 0xff;
}

/* Runs one script to its end and returns its exit code. `code` comes from `alloc`. */
EXPORT("run") int32_t run(char *code, size_t length, int64_t start, int64_t seed)
{
    plimsoll_run.start_ms = start;
    plimsoll_run.random_state = (uint64_t)seed;
    plimsoll_begin(code, length, "main.js");
    plimsoll_place();
    run_preludes();

    bool is_async;
    JSValue waiting = JS_UNDEFINED;
    JSValue compiled = plimsoll_compile_program(code, length, &is_async);
    if (JS_IsException(compiled)) {
        plimsoll_report_uncaught(JS_GetException(plimsoll_context), "syntaxError", JS_UNDEFINED);
        return 1;
    }
    JSValue value = JS_EvalFunction(plimsoll_context, compiled);
    if (JS_IsException(value)) {
        plimsoll_report_uncaught(JS_GetException(plimsoll_context), "uncaughtException", JS_UNDEFINED);
    } else if (is_async) {
        waiting = value;
        plimsoll_watch(waiting);
    }
    return finish(waiting);
}

/* Runs one step of a project to its end and returns its exit code: as `run`, but the program is a file. `spec` comes from `alloc`
 * and is JSON: {"file": …, "arguments": […]} as they stand in the step. */
EXPORT("step") int32_t step(char *spec, size_t length, int64_t start, int64_t seed)
{
    JSContext *ctx = plimsoll_context;
    plimsoll_run.start_ms = start;
    plimsoll_run.random_state = (uint64_t)seed;
    plimsoll_begin(spec, length, "main.js");
    plimsoll_run.program = NULL;

    JSValue text = JS_NewStringLen(ctx, spec, length);
    /* A CommonJS program has run when this is back. An ES module has only been read: its name, and its source. */
    JSValue entry = JS_Call(ctx, plimsoll_hooks[HOOK_ENTER], JS_UNDEFINED, 1, (JSValueConst *)&text);
    if (JS_IsException(entry)) {
        plimsoll_report_uncaught(JS_GetException(ctx), "uncaughtException", JS_UNDEFINED);
        return finish(JS_UNDEFINED);
    }
    if (JS_IsUndefined(entry))
        return finish(JS_UNDEFINED);
    const char *name = JS_ToCString(ctx, JS_GetPropertyUint32(ctx, entry, 0));
    JSValue module = plimsoll_compile_module(ctx, name, JS_GetPropertyUint32(ctx, entry, 1));
    if (JS_IsException(module)) {
        plimsoll_report_uncaught(JS_GetException(ctx), "syntaxError", JS_UNDEFINED);
        return 1;
    }
    JSValue waiting = JS_EvalFunction(ctx, module);
    if (JS_IsException(waiting)) {
        plimsoll_report_uncaught(JS_GetException(ctx), "syntaxError", JS_UNDEFINED);
        return 1;
    }
    plimsoll_watch(waiting);
    return finish(waiting);
}
