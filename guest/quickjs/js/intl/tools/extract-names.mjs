// Records the English names of regions, languages, scripts and currencies from node 22. Writes ../data/names.js.
import fs from 'node:fs';
import path from 'node:path';
const A = [...'abcdefghijklmnopqrstuvwxyz'];
const two = A.flatMap(a => A.map(b => a + b)), three = two.flatMap(x => A.map(c => x + c));
const line = (type, codes) => { const d = new Intl.DisplayNames('en', { type, fallback: 'none' }); return codes.flatMap(c => { let v; try { v = d.of(c); } catch { return []; } return v ? [`${c}\t${v}`] : []; }).join('\n'); };
const tags = ['en-US', 'en-GB', 'en-AU', 'en-CA', 'fr-CA', 'fr-CH', 'es-ES', 'es-MX', 'es-419', 'pt-BR', 'pt-PT', 'zh-Hans', 'zh-Hant', 'de-AT', 'de-CH', 'nl-BE', 'ro-MD', 'sr-ME', 'ar-001', 'fa-AF', 'sw-CD'];
const scripts = ['Latn', 'Cyrl', 'Grek', 'Arab', 'Hebr', 'Hans', 'Hant', 'Jpan', 'Kore', 'Deva', 'Thai', 'Hira', 'Kana', 'Hang', 'Armn', 'Geor', 'Beng', 'Taml', 'Telu', 'Ethi', 'Khmr', 'Laoo', 'Mymr', 'Sinh', 'Tibt', 'Mong', 'Guru', 'Gujr', 'Knda', 'Mlym', 'Orya'];
fs.writeFileSync(path.join(import.meta.dirname, '../data/names.js'), `// English names (CLDR 48), recorded from node 22 by ../tools/extract-names.mjs: code, tab, name.
export const REGIONS = ${JSON.stringify(line('region', [...two.map(x => x.toUpperCase()), '001', '002', '005', '009', '019', '021', '142', '150', '419']))};
export const LANGUAGES = ${JSON.stringify(line('language', [...two, ...three, ...tags]))};
export const CURRENCIES = ${JSON.stringify(line('currency', Intl.supportedValuesOf('currency')))};
export const SCRIPTS = ${JSON.stringify(line('script', scripts))};
`);
