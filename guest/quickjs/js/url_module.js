// `url`: our URL and URLSearchParams, the source's legacy functions.
import theirs from 'wasm-rquickjs/url';
import { URL, URLSearchParams } from 'plimsoll:internal/url';

export default { ...theirs, URL, URLSearchParams };
