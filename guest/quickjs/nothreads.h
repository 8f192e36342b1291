/* Included before everything else when QuickJS is compiled: one thread, so its locks are empty. QuickJS leaves out
 * Atomics and SharedArrayBuffer on targets without threads; both are part of the language, so they are kept here.
 * `Atomics.wait` never reaches these functions: the shim forbids blocking, and it throws. */
#ifndef PLIMSOLL_NOTHREADS_H
#define PLIMSOLL_NOTHREADS_H

#include <stdatomic.h>
#include <stdint.h>

#define CONFIG_ATOMICS

typedef int js_once_t;
typedef int js_mutex_t;
typedef int js_cond_t;
#define JS_ONCE_INIT 0

static inline void js_once(js_once_t *guard, void (*callback)(void))
{
    if (!*guard) {
        *guard = 1;
        callback();
    }
}

static inline void js_mutex_init(js_mutex_t *mutex) { *mutex = 0; }
static inline void js_mutex_lock(js_mutex_t *mutex) { *mutex = 1; }
static inline void js_mutex_unlock(js_mutex_t *mutex) { *mutex = 0; }
static inline void js_cond_init(js_cond_t *cond) { *cond = 0; }
static inline void js_cond_destroy(js_cond_t *cond) { *cond = 0; }
static inline void js_cond_signal(js_cond_t *cond) { *cond = 1; }
static inline void js_cond_wait(js_cond_t *cond, js_mutex_t *mutex) { (void)cond; (void)mutex; }

static inline int js_cond_timedwait(js_cond_t *cond, js_mutex_t *mutex, uint64_t timeout)
{
    (void)cond;
    (void)mutex;
    (void)timeout;
    return -1;
}

#endif
