// The `URL` class over the parser and URLSearchParams.
import { codedError, ERR_MISSING_ARGS } from 'plimsoll:internal/errors';
import { customInspect, inspect } from 'plimsoll:internal/inspect';
import { markClasses } from 'plimsoll:internal/inspect-names';
import * as parser from 'plimsoll:internal/url-parse';
import { URLSearchParams, resetParams } from 'plimsoll:internal/url-params';

function parse(input, base) {
  let parsedBase = null;
  if (base !== undefined) {
    parsedBase = parser.parseUrl(`${base}`, null);
    if (parsedBase === null) return null;
  }
  return parser.parseUrl(`${input}`, parsedBase);
}

export class URL {
  #url;
  #params;

  constructor(input, base = undefined) {
    if (arguments.length === 0) throw new ERR_MISSING_ARGS('url');
    this.#url = parse(input, base);
    if (this.#url === null) {
      const properties = { input: `${input}` };
      if (base !== undefined) properties.base = `${base}`;
      throw codedError(TypeError, 'ERR_INVALID_URL', 'Invalid URL', properties);
    }
  }

  static canParse(input, base = undefined) {
    if (arguments.length === 0) throw new ERR_MISSING_ARGS('url');
    return parse(input, base) !== null;
  }

  static parse(input, base = undefined) {
    if (arguments.length === 0) throw new ERR_MISSING_ARGS('url');
    return parse(input, base) === null ? null : new URL(input, base);
  }

  #queryChanged() {
    if (this.#params !== undefined) resetParams(this.#params, this.#url.query ?? '');
  }

  get href() {
    return parser.serialize(this.#url);
  }

  set href(value) {
    const url = parser.parseUrl(`${value}`, null);
    if (url === null) throw codedError(TypeError, 'ERR_INVALID_URL', 'Invalid URL', { input: `${value}` });
    this.#url = url;
    this.#queryChanged();
  }

  get origin() {
    const { protocol, host, port } = this.#url;
    if (protocol === 'blob:') {
      const inner = parser.parseUrl(this.pathname, null);
      return inner !== null && /^https?:$/.test(inner.protocol) ? new URL(this.pathname).origin : 'null';
    }
    if (!parser.isSpecial(protocol) || protocol === 'file:') return 'null';
    return `${protocol}//${host}${port === '' ? '' : `:${port}`}`;
  }

  get protocol() {
    return this.#url.protocol;
  }

  set protocol(value) {
    const scheme = /^([a-zA-Z][a-zA-Z0-9+.-]*)(?::|$)/.exec(`${value}`);
    if (!scheme) return;
    const protocol = `${scheme[1].toLowerCase()}:`;
    if (parser.isSpecial(protocol) !== parser.isSpecial(this.#url.protocol)) return;
    if (protocol === 'file:' && (this.#url.username !== '' || this.#url.password !== '' || this.#url.port !== '')) return;
    if (this.#url.protocol === 'file:' && this.#url.host === '') return;
    this.#url.protocol = protocol;
    this.#url.port = parser.parsePort(protocol, this.#url.port);
  }

  #takesCredentials() {
    return this.#url.host !== null && this.#url.host !== '' && this.#url.protocol !== 'file:';
  }

  get username() {
    return this.#url.username;
  }

  set username(value) {
    if (this.#takesCredentials()) this.#url.username = parser.encodeUserInfo(`${value}`);
  }

  get password() {
    return this.#url.password;
  }

  set password(value) {
    if (this.#takesCredentials()) this.#url.password = parser.encodeUserInfo(`${value}`);
  }

  get host() {
    return (this.#url.host ?? '') + (this.#url.port === '' ? '' : `:${this.#url.port}`);
  }

  set host(value) {
    if (this.#url.opaque !== null) return;
    const parts = /^(\[[^\]]*\]|[^:/\\?#]*)(?::([0-9]*))?/.exec(`${value}`);
    const host = parser.parseHost(parts[1], parser.isSpecial(this.#url.protocol));
    if (host === null) return;
    this.#url.host = host;
    if (parts[2]) this.port = parts[2];
  }

  get hostname() {
    return this.#url.host ?? '';
  }

  set hostname(value) {
    if (this.#url.opaque !== null) return;
    const host = parser.parseHost(`${value}`.replace(/[/\\?#].*$/s, ''), parser.isSpecial(this.#url.protocol));
    if (host !== null) this.#url.host = host;
  }

  get port() {
    return this.#url.port;
  }

  set port(value) {
    if (!this.#takesCredentials()) return;
    const digits = /^[0-9]*/.exec(`${value}`)[0];
    if (digits === '' && `${value}` !== '') return;
    this.#url.port = parser.parsePort(this.#url.protocol, digits) ?? this.#url.port;
  }

  get pathname() {
    return parser.pathOf(this.#url);
  }

  set pathname(value) {
    if (this.#url.opaque !== null) return;
    const special = parser.isSpecial(this.#url.protocol);
    this.#url.path = [];
    parser.parsePath(
      this.#url,
      `${value}`.replace(/[\t\n\r]/g, '').replace(special ? /^[/\\]/ : /^\//, '').replaceAll('?', '%3F').replaceAll('#', '%23'),
    );
  }

  get search() {
    return this.#url.query ? `?${this.#url.query}` : '';
  }

  set search(value) {
    const query = `${value}`.replace(/^\?/, '');
    this.#url.query = `${value}` === '' ? null : parser.encodeQuery(query, parser.isSpecial(this.#url.protocol));
    this.#queryChanged();
  }

  get searchParams() {
    this.#params ??= new URLSearchParams(this.#url.query ?? '', (query) => {
      this.#url.query = query === '' ? null : query;
    });
    return this.#params;
  }

  get hash() {
    return this.#url.fragment ? `#${this.#url.fragment}` : '';
  }

  set hash(value) {
    this.#url.fragment = `${value}` === '' ? null : parser.encodeFragment(`${value}`.replace(/^#/, ''));
  }

  toString() {
    return parser.serialize(this.#url);
  }

  toJSON() {
    return parser.serialize(this.#url);
  }

  [customInspect](depth, options) {
    if (depth < 0) return this;
    const shown = {};
    for (const key of FIELDS) shown[key] = this[key];
    const name = this.constructor?.name || 'URL';
    return `${name} ${inspect(shown, options)}`;
  }
}

const FIELDS = [
  'href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'searchParams', 'hash',
];
for (const name of [...FIELDS, 'toString', 'toJSON']) Object.defineProperty(URL.prototype, name, { enumerable: true });
Object.defineProperty(URL.prototype, Symbol.toStringTag, { value: 'URL', configurable: true });
markClasses(URL);

export { URLSearchParams };
