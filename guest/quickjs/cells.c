/* Cells: one piece of a session's program after the other, in one instance. What a cell takes it frees. */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>

/* How a cell ended: the answer of `cell`. */
enum { CELL_RAN = 0, CELL_RAISED = 1, CELL_NEVER_SETTLED = 13 };

static int32_t raised(const char *origin)
{
    plimsoll_report_uncaught(JS_GetException(plimsoll_context), origin, JS_UNDEFINED);
    return CELL_RAISED;
}

/* Waits for a promise: everything queued runs until it has settled. `*promise` becomes what it was fulfilled with. */
static int32_t settle(JSValue *promise)
{
    JSValue settled = *promise;
    *promise = JS_UNDEFINED;
    plimsoll_watch(settled);
    while (JS_PromiseState(plimsoll_context, settled) == JS_PROMISE_PENDING) {
        plimsoll_report_rejections();
        if (!plimsoll_next_task()) {
            static const char warning[] = "Warning: Detected unsettled top-level await";
            plimsoll_print_error(warning, sizeof warning - 1);
            JS_FreeValue(plimsoll_context, settled);
            return CELL_NEVER_SETTLED;
        }
        plimsoll_drain();
    }
    bool rejected = JS_PromiseState(plimsoll_context, settled) == JS_PROMISE_REJECTED;
    JSValue result = JS_PromiseResult(plimsoll_context, settled);
    JS_FreeValue(plimsoll_context, settled);
    if (rejected) {
        JS_Throw(plimsoll_context, result);
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
    JSValue global = JS_GetGlobalObject(plimsoll_context);
    if (JS_SetPropertyStr(plimsoll_context, global, "_", JS_DupValue(plimsoll_context, value)) < 0)
        JS_FreeValue(plimsoll_context, JS_GetException(plimsoll_context));
    JS_FreeValue(plimsoll_context, global);
    JSValue shown = JS_Call(plimsoll_context, plimsoll_hooks[HOOK_SHOW], JS_UNDEFINED, 1, (JSValueConst *)&value);
    JS_FreeValue(plimsoll_context, value);
    if (JS_IsException(shown))
        return raised("cell");
    JS_FreeValue(plimsoll_context, shown);
    return CELL_RAN;
}

static int32_t evaluate_cell(const char *code, size_t length)
{
    bool is_async;
    plimsoll_compiles_cell = true;
    JSValue compiled = plimsoll_compile_program(code, length, &is_async);
    plimsoll_compiles_cell = false;
    if (JS_IsException(compiled))
        return raised("syntaxError");
    JSValue value = JS_EvalFunction(plimsoll_context, compiled);
    if (JS_IsException(value))
        return raised("cell");
    plimsoll_drain();
    if (is_async) {
        /* The engine wraps the value of an async program, so that it may be a promise itself. */
        int32_t ended = settle(&value);
        if (ended != CELL_RAN)
            return ended;
        JSValue wrapped = value;
        value = JS_GetPropertyStr(plimsoll_context, wrapped, "value");
        JS_FreeValue(plimsoll_context, wrapped);
        if (JS_IsException(value))
            return raised("cell");
    }
    if ((int)JS_PromiseState(plimsoll_context, value) >= 0) {
        int32_t ended = settle(&value);
        if (ended != CELL_RAN)
            return ended;
    }
    plimsoll_report_rejections();
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
    plimsoll_place();
    snprintf(name, sizeof name, "cell%u.js", (unsigned)number);
    plimsoll_begin(code, length, name);
    int32_t ended = evaluate_cell(code, length);
    plimsoll_drain();
    plimsoll_report_rejections();
    if (JS_IsException(JS_Call(plimsoll_context, plimsoll_hooks[HOOK_SWEEP], JS_UNDEFINED, 0, NULL)))
        JS_FreeValue(plimsoll_context, JS_GetException(plimsoll_context));
    plimsoll_run.program = NULL;
    free(code);
    plimsoll_reserve();
    return ended;
}
