/* Modules: those of the image, compiled while it is built, and those a program imports, which the JavaScript world finds
 * (js/internal/loader.js) and this file hands to the engine.
 *
 * The engine knows a module by its name. Names of the image's are those of the manifest; a program's begin with `file:`
 * or `builtin:`, so that no program can name one of the image's.
 */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* --- of the image --------------------------------------------------------------------------------------------------- */

/* Compiles one module without its source text: written out and read back, because only the writer can leave it out. The
 * compiling context is another one, so that the module exists once in the image's. */
JSValue plimsoll_compile_image_module(JSContext *ctx, const PlimsollModule *module)
{
    size_t size;
    JSContext *compiler = plimsoll_compiler;
    JSValue compiled = JS_Eval(compiler, module->source, module->length, module->name,
                               JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
    if (JS_IsException(compiled))
        plimsoll_fail_build(compiler, module->name);
    uint8_t *bytes = JS_WriteObject(compiler, &size, compiled, JS_WRITE_OBJ_BYTECODE | JS_WRITE_OBJ_STRIP_SOURCE);
    if (!bytes)
        plimsoll_fail_build(compiler, module->name);
    JSValue read = JS_ReadObject(ctx, bytes, size, JS_READ_OBJ_BYTECODE);
    js_free(compiler, bytes);
    if (JS_IsException(read))
        plimsoll_fail_build(ctx, module->name);
    return read;
}

static JSModuleDef *load_image_module(JSContext *ctx, const char *name)
{
    for (size_t i = 0; i < plimsoll_module_count; i++) {
        if (strcmp(plimsoll_modules[i].name, name) == 0) {
            if (plimsoll_modules[i].kernel)
                return plimsoll_modules[i].kernel;
            JSValue module = plimsoll_compile_image_module(ctx, &plimsoll_modules[i]);
            if (ctx == plimsoll_kernel)
                plimsoll_modules[i].kernel = JS_VALUE_GET_PTR(module);
            if (JS_ResolveModule(ctx, module) < 0)
                plimsoll_fail_build(ctx, name);
            JSModuleDef *definition = JS_VALUE_GET_PTR(module);
            /* The context's list of loaded modules holds it from here on. */
            JS_FreeValue(ctx, module);
            return definition;
        }
    }
    JS_ThrowReferenceError(ctx, "the manifest names no module '%s'", name);
    return NULL;
}

/* Image modules may name each other relatively. */
static char *image_name(JSContext *ctx, const char *base, const char *specifier)
{
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

/* --- of a program --------------------------------------------------------------------------------------------------- */

static JSValue ask(JSContext *ctx, int hook, int argc, JSValue *argv)
{
    JSValue answer = JS_Call(ctx, plimsoll_hooks[hook], JS_UNDEFINED, argc, (JSValueConst *)argv);
    for (int i = 0; i < argc; i++)
        JS_FreeValue(ctx, argv[i]);
    return answer;
}

static char *program_name(JSContext *ctx, const char *base, const char *specifier)
{
    JSValue arguments[] = { JS_NewString(ctx, specifier), JS_NewString(ctx, base) };
    JSValue answer = ask(ctx, HOOK_RESOLVE, 2, arguments);
    const char *text = JS_IsException(answer) ? NULL : JS_ToCString(ctx, answer);
    char *name = text ? js_strdup(ctx, text) : NULL;
    JS_FreeCString(ctx, text);
    JS_FreeValue(ctx, answer);
    return name;
}

JSValue plimsoll_compile_module(JSContext *ctx, const char *name, JSValueConst source)
{
    size_t length;
    const char *text = JS_ToCStringLen(ctx, &length, source);
    if (!text)
        return JS_EXCEPTION;
    JSValue module = JS_Eval(ctx, text, length, name, JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY);
    JS_FreeCString(ctx, text);
    if (JS_IsException(module))
        return module;
    JSValue arguments[] = { JS_GetImportMeta(ctx, JS_VALUE_GET_PTR(module)), JS_NewString(ctx, name) };
    JSValue done = ask(ctx, HOOK_META, 2, arguments);
    if (JS_IsException(done)) {
        JS_FreeValue(ctx, module);
        return JS_EXCEPTION;
    }
    JS_FreeValue(ctx, done);
    return module;
}

/* Gives a module that is no ES module its exports, when its turn has come to be evaluated. */
static int evaluate_foreign(JSContext *ctx, JSModuleDef *module)
{
    JSAtom atom = JS_GetModuleName(ctx, module);
    JSValue name = JS_AtomToValue(ctx, atom);
    JS_FreeAtom(ctx, atom);
    JSValue names = JS_GetModulePrivateValue(ctx, module);
    int64_t count = 0;
    int outcome = -1;
    /* `name` goes with the call. */
    JSValue values = ask(ctx, HOOK_EVALUATE, 1, &name);
    if (JS_IsException(values) || JS_GetLength(ctx, names, &count))
        goto done;
    for (int64_t i = 0; i < count; i++) {
        JSValue export = JS_GetPropertyInt64(ctx, names, i);
        const char *text = JS_ToCString(ctx, export);
        JS_FreeValue(ctx, export);
        JSValue value = text ? JS_GetPropertyInt64(ctx, values, i) : JS_EXCEPTION;
        int set = JS_IsException(value) ? -1 : JS_SetModuleExport(ctx, module, text, value);
        JS_FreeCString(ctx, text);
        if (set < 0)
            goto done;
    }
    outcome = 0;
done:
    JS_FreeValue(ctx, values);
    JS_FreeValue(ctx, names);
    return outcome;
}

static JSModuleDef *declare_foreign(JSContext *ctx, const char *name, JSValue names)
{
    int64_t count;
    JSModuleDef *module = JS_NewCModule(ctx, name, evaluate_foreign);
    if (!module || JS_GetLength(ctx, names, &count)) {
        JS_FreeValue(ctx, names);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        JSValue export = JS_GetPropertyInt64(ctx, names, i);
        const char *text = JS_ToCString(ctx, export);
        JS_FreeValue(ctx, export);
        int added = text ? JS_AddModuleExport(ctx, module, text) : -1;
        JS_FreeCString(ctx, text);
        if (added < 0) {
            JS_FreeValue(ctx, names);
            return NULL;
        }
    }
    JS_SetModulePrivateValue(ctx, module, names);
    return module;
}

static JSModuleDef *load_program_module(JSContext *ctx, const char *name, JSValueConst attributes)
{
    JSValue type = JS_IsObject(attributes) ? JS_GetPropertyStr(ctx, attributes, "type") : JS_UNDEFINED;
    JSValue arguments[] = { JS_NewString(ctx, name), type };
    JSValue found = ask(ctx, HOOK_LOAD, 2, arguments);
    if (JS_IsException(found))
        return NULL;
    if (!JS_IsString(found))
        return declare_foreign(ctx, name, found);
    JSValue module = plimsoll_compile_module(ctx, name, found);
    JS_FreeValue(ctx, found);
    if (JS_IsException(module))
        return NULL;
    JSModuleDef *definition = JS_VALUE_GET_PTR(module);
    /* The context's list of loaded modules holds it from here on. */
    JS_FreeValue(ctx, module);
    return definition;
}

/* --- both ----------------------------------------------------------------------------------------------------------- */

static char *normalize(JSContext *ctx, const char *base, const char *specifier, void *opaque)
{
    (void)opaque;
    return plimsoll_run.running ? program_name(ctx, base, specifier) : image_name(ctx, base, specifier);
}

static JSModuleDef *load(JSContext *ctx, const char *name, void *opaque, JSValueConst attributes)
{
    (void)opaque;
    return plimsoll_run.running ? load_program_module(ctx, name, attributes) : load_image_module(ctx, name);
}

void plimsoll_set_module_loader(JSRuntime *runtime)
{
    JS_SetModuleLoaderFunc2(runtime, normalize, load, NULL, NULL);
}
