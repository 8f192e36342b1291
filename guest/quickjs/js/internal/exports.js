// Which names a CommonJS file exports, told from its text alone: an ES module that imports it must know them before it runs.
// Told are the assignments that programs and compilers write; a name made up at run time is missing, as it is in node.

const NAME = String.raw`[A-Za-z_$][\w$]*`;
const ASSIGNED = new RegExp(String.raw`\bexports\s*\.\s*(${NAME})\s*=(?!=)`, 'g');
const INDEXED = /\bexports\s*\[\s*(['"])((?:(?!\1)[^\\\n])+)\1\s*\]\s*=(?!=)/g;
const DEFINED = /\bdefineProperty\s*\(\s*(?:module\s*\.\s*)?exports\s*,\s*(['"])((?:(?!\1)[^\\\n])+)\1/g;
const LISTED = /\bmodule\s*\.\s*exports\s*=\s*\{/g;
const PASSED_ON = [
  /\bmodule\s*\.\s*exports\s*=\s*require\s*\(\s*(['"])([^'"\n]+)\1\s*\)/g,
  /\b__exportStar\s*\(\s*require\s*\(\s*(['"])([^'"\n]+)\1\s*\)/g,
];
const KEY = new RegExp(String.raw`\s*(?:(?:get|set|async)\s+(?=[\w$'"]))?\*?\s*(?:(${NAME})|(['"])((?:(?!\2)[^\\\n])+)\2)\s*([,:}(])`, 'y');
const SPREAD = /\s*\.\.\.\s*(?:require\s*\(\s*(['"])([^'"\n]+)\1\s*\))?/y;

/** The text without its comments; what strings hold stays. */
const withoutComments = (text) =>
  text.replace(
    /("(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'|`(?:[^`\\]|\\[^])*`)|\/\/[^\n]*|\/\*[^]*?\*\//g,
    (found, string) => string ?? ' ',
  );

/** The place after a value: at the comma or brace that ends it. */
function afterValue(text, from) {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const character = text[at];
    if ('([{'.includes(character)) {
      depth++;
    } else if (')]}'.includes(character)) {
      if (depth === 0) return at;
      depth--;
    } else if (character === ',' && depth === 0) {
      return at;
    } else if ('"\'`'.includes(character)) {
      for (at++; at < text.length && text[at] !== character; at++) if (text[at] === '\\') at++;
    }
  }
  return text.length;
}

/** The keys of an object literal, and the modules it spreads. */
function keysOf(text, from, names, passedOn) {
  for (let at = from; at < text.length && text[at] !== '}'; at++) {
    SPREAD.lastIndex = at;
    const spread = SPREAD.exec(text);
    KEY.lastIndex = at;
    const key = spread === null ? KEY.exec(text) : null;
    if (spread !== null) {
      if (spread[2] !== undefined) passedOn.add(spread[2]);
      at = afterValue(text, SPREAD.lastIndex);
    } else if (key !== null) {
      names.add(key[1] ?? key[3]);
      at = ',}'.includes(key[4]) ? KEY.lastIndex - 1 : afterValue(text, KEY.lastIndex - (key[4] === '(' ? 1 : 0));
    } else {
      return;
    }
    if (text[at] === '}') return;
  }
}

/** `names`, and `passedOn`: the modules whose names are exported too. */
export function exportsOf(text) {
  const names = new Set();
  const passedOn = new Set();
  const bare = withoutComments(text);
  for (const [, name] of bare.matchAll(ASSIGNED)) names.add(name);
  for (const pattern of [INDEXED, DEFINED]) for (const found of bare.matchAll(pattern)) names.add(found[2]);
  for (const pattern of PASSED_ON) for (const found of bare.matchAll(pattern)) passedOn.add(found[2]);
  for (const found of bare.matchAll(LISTED)) keysOf(bare, found.index + found[0].length, names, passedOn);
  return { names, passedOn };
}
