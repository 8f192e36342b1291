// The ways into a run with files: a step of a project begins with a file, and a session's snippets and cells stand among the same files.
import { native } from 'plimsoll:internal/native';
import { builtin, missing } from 'plimsoll:builtins';
import { asAny, formatOf, textOf } from 'plimsoll:internal/resolve';
import { urlOf } from 'plimsoll:internal/loader';
import { isModule, load, module, moveMain } from 'plimsoll:modules';
import { WORK, stand } from 'plimsoll:internal/work';
import path from 'node:path';

const process = builtin('process');

/** The names that a script finds on its global object, and a file in its own scope. */
const SCRIPT_NAMES = ['require', 'module', 'exports', '__filename', '__dirname'];

function place() {
  stand(WORK);
  moveMain(WORK);
}

native.setPlace(() => {
  place();
  process.argv[1] = module.filename;
  globalThis.__filename = module.filename;
  globalThis.__dirname = module.path;
});

/** Evaluates a CommonJS file; of an ES module it answers name and source, which the engine goes on with. */
native.setEnter((spec) => {
  const step = JSON.parse(spec);
  place();
  for (const name of SCRIPT_NAMES) delete globalThis[name];
  const named = path.posix.resolve(WORK, step.file);
  process.argv = [process.execPath, named, ...step.arguments];
  const file = asAny(named, step.file);
  if (file === undefined) throw missing(named, named);
  if (formatOf(file) !== 'json' && isModule(file)) return [urlOf(file), textOf(file)];
  load(file);
  return undefined;
});
