/* What a program is told about its own failures: errors nobody caught, and promises rejected without a handler. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* Given back to the allocator when an error has to be printed, so that "out of memory" can be said. */
#define RESERVE (256 * 1024)

static void *reserve;

bool plimsoll_reserve(void)
{
    if (!reserve)
        reserve = malloc(RESERVE);
    return reserve;
}

void plimsoll_print_error(const char *text, size_t length)
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
        plimsoll_print_error(text, length);
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

_Noreturn void plimsoll_fail_build(JSContext *ctx, const char *where)
{
    plimsoll_print_error(where, strlen(where));
    JSValue error = JS_GetException(ctx);
    print_bare(ctx, error);
    plimsoll_host_exit(1);
}

void plimsoll_report_uncaught(JSValue error, const char *origin, JSValueConst promise)
{
    JSContext *ctx = plimsoll_context;
    int32_t code = 1;
    free(reserve);
    reserve = NULL;
    if (JS_IsUndefined(plimsoll_hooks[HOOK_UNCAUGHT])) {
        print_bare(ctx, error);
        plimsoll_host_exit(code);
    }
    JSValue arguments[] = { error, JS_NewString(ctx, origin), JS_DupValue(ctx, promise) };
    JSValue answer = JS_Call(ctx, plimsoll_hooks[HOOK_UNCAUGHT], JS_UNDEFINED, 3, (JSValueConst *)arguments);
    if (JS_IsException(answer) && plimsoll_run.cell > 0) {
        JS_FreeValue(ctx, JS_GetException(ctx));
        print_bare(ctx, error);
        answer = JS_UNDEFINED;
    }
    if (JS_IsUndefined(answer)) {
        JS_FreeValue(ctx, arguments[0]);
        JS_FreeValue(ctx, arguments[1]);
        JS_FreeValue(ctx, arguments[2]);
        return;
    }
    if (JS_IsException(answer) || JS_ToInt32(ctx, &code, answer)) {
        JS_FreeValue(ctx, JS_GetException(ctx));
        print_bare(ctx, error);
        code = 1;
    }
    plimsoll_host_exit(code & 0xff);
}

/* Promises rejected without a handler, oldest first. */
static struct {
    JSValue promise, reason;
} *rejections;
static size_t rejection_count, rejection_capacity;

void plimsoll_track_rejection(JSContext *ctx, JSValueConst promise, JSValueConst reason, bool handled, void *opaque)
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

void plimsoll_report_rejections(void)
{
    while (rejection_count > 0) {
        JSValue promise = rejections[0].promise, reason = rejections[0].reason;
        memmove(&rejections[0], &rejections[1], --rejection_count * sizeof *rejections);
        plimsoll_report_uncaught(reason, "unhandledRejection", promise);
        JS_FreeValue(plimsoll_context, promise);
    }
}

bool plimsoll_has_rejections(void)
{
    if (rejection_count > 0)
        JS_Throw(plimsoll_context, JS_DupValue(plimsoll_context, rejections[0].reason));
    return rejection_count > 0;
}

void plimsoll_watch(JSValueConst promise)
{
    JS_PromiseMarkAsHandled(plimsoll_context, promise);
    /* It may have been rejected before its first `await`. */
    plimsoll_track_rejection(plimsoll_context, promise, JS_UNDEFINED, true, NULL);
}
