// What an uncaught error prints, and what a cell shows of its value.
import { native } from 'plimsoll:kernel/native';
import { inspect } from 'plimsoll:internal/inspect';
import { isError } from 'plimsoll:internal/inspect-error';

const READ = 0;

/** The text that a place in a stack is in: of the program that runs, or of a file of the run. */
function textAt(name) {
  if (name === (native.cell() ?? 'main.js')) return native.source();
  // Of an earlier cell there is no text any more.
  if (!name.includes('/')) return undefined;
  const file = name.startsWith('file://') ? decodeURIComponent(name.slice('file://'.length).replace(/[?#].*$/, '')) : name;
  const bytes = native.files(READ, file);
  return typeof bytes === 'number' ? undefined : native.utf8Decode(bytes, false);
}

/** Where the program threw: file and line, the line itself and a mark below it, as node shows them. */
function excerpt(error) {
  const place = /^ +at (?:.* \()?((?:file:\/\/)?\/.*|(?:main|cell\d+)\.js):(\d+):(\d+)\)?$/m.exec(String(error.stack));
  const line = place && textAt(place[1])?.split('\n')[place[2] - 1];
  // A line that long is generated code; it would bury the message.
  if (!line || line.length > 400) return '';
  const column = Math.min(place[3] - 1, line.length);
  return `${place[1]}:${place[2]}\n${line}\n${line.slice(0, column).replace(/[^\t]/g, ' ')}^\n\n`;
}

/** The error's own text with its stack; anything else that was thrown is named as such. */
export function describe(error) {
  if (!isError(error)) return `Uncaught ${inspect(error)}`;
  try {
    return excerpt(error) + inspect(error);
  } catch {
    return `${error.name}: ${error.message}`;
  }
}

const CELL_OPTIONS = { __proto__: null, depth: 4, maxArrayLength: 100, maxStringLength: 10000 };

native.setShow((value) => {
  native.write(1, `${inspect(value, CELL_OPTIONS)}\n`);
});
