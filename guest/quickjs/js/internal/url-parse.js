// The URL parser of the URL Standard, as a state machine over pieces rather than over characters.
import { native } from 'plimsoll:internal/native';
import { toASCII } from 'node:punycode';

const DEFAULT_PORTS = { 'http:': '80', 'https:': '443', 'ws:': '80', 'wss:': '443', 'ftp:': '21', 'file:': '' };
export const isSpecial = (protocol) => Object.hasOwn(DEFAULT_PORTS, protocol);

// Percent-encode sets: everything outside printable ASCII, and these.
const C0 = '';
const FRAGMENT = ' "<>`';
const QUERY = ' "#<>';
const SPECIAL_QUERY = `${QUERY}'`;
const PATH = `${QUERY}?^\`{}`;
const USERINFO = `${PATH}/:;=@[\\]|`;

export function percentEncode(text, set) {
  let out = '';
  for (const character of text) {
    const code = character.codePointAt(0);
    if (code > 0x1f && code < 0x7f && !set.includes(character)) {
      out += character;
      continue;
    }
    for (const byte of native.utf8Encode(character)) out += `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return out;
}

export function percentDecode(text) {
  if (!text.includes('%')) return text;
  const source = native.utf8Encode(text);
  const bytes = new Uint8Array(source.length);
  let length = 0;
  for (let i = 0; i < source.length; i++) {
    const hex = source[i] === 37 ? String.fromCharCode(source[i + 1], source[i + 2]) : '';
    if (/^[0-9a-fA-F]{2}$/.test(hex)) {
      bytes[length++] = Number.parseInt(hex, 16);
      i += 2;
    } else {
      bytes[length++] = source[i];
    }
  }
  return native.utf8Decode(bytes.subarray(0, length), false);
}

/** One part of an IPv4 address: decimal, 0x hexadecimal or 0 octal; NaN if it is none. */
function ipv4Number(text) {
  if (text === '') return NaN;
  if (/^0x[0-9a-f]*$/i.test(text)) return text.length === 2 ? 0 : Number.parseInt(text.slice(2), 16);
  if (/^0[0-7]*$/.test(text)) return Number.parseInt(text, 8);
  return /^[0-9]+$/.test(text) ? Number(text) : NaN;
}

function parseIPv4(host) {
  const parts = host.split('.');
  if (parts.length > 1 && parts.at(-1) === '') parts.pop();
  if (parts.length > 4) return null;
  const numbers = parts.map(ipv4Number);
  const last = numbers.pop();
  if (numbers.some((n) => !(n <= 255)) || !(last < 256 ** (4 - numbers.length))) return null;
  const address = numbers.reduce((sum, n, i) => sum + n * 256 ** (3 - i), last);
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.');
}

function parseIPv6(text) {
  const halves = text.split('::');
  if (halves.length > 2) return null;
  const pieces = (half, isLast) => {
    if (half === '') return [];
    const out = [];
    const parts = half.split(':');
    for (const [i, part] of parts.entries()) {
      if (/^[0-9a-f]{1,4}$/i.test(part)) {
        out.push(Number.parseInt(part, 16));
        continue;
      }
      const dotted = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(part);
      if (!dotted || !isLast || i !== parts.length - 1) return null;
      const bytes = dotted.slice(1);
      if (bytes.some((byte) => Number(byte) > 255 || (byte.length > 1 && byte[0] === '0'))) return null;
      out.push(bytes[0] * 256 + +bytes[1], bytes[2] * 256 + +bytes[3]);
    }
    return out;
  };
  const head = pieces(halves[0], halves.length === 1);
  const tail = halves.length === 2 ? pieces(halves[1], true) : [];
  if (head === null || tail === null) return null;
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return null;
  const all = [...head, ...new Array(missing).fill(0), ...tail];
  // The longest run of two or more zeros is shortened, the first one if there are several.
  let best = { at: -1, size: 1 };
  for (let i = 0; i < 8; i++) {
    let size = 0;
    while (i + size < 8 && all[i + size] === 0) size++;
    if (size > best.size) best = { at: i, size };
    i += size;
  }
  const hex = (numbers) => numbers.map((n) => n.toString(16)).join(':');
  if (best.at === -1) return `[${hex(all)}]`;
  return `[${hex(all.slice(0, best.at))}::${hex(all.slice(best.at + best.size))}]`;
}

/** The host as it is written in a URL, or null. */
export function parseHost(text, special) {
  if (text.startsWith('[')) return text.endsWith(']') ? parseIPv6(text.slice(1, -1)) : null;
  if (!special) return /[\0\t\n\r #/:<>?@[\\\]^|]/.test(text) ? null : percentEncode(text, C0);
  let host = percentDecode(text).normalize('NFKC').toLowerCase().replace(/[\u3002\uff0e\uff61]/g, '.').replaceAll('\u00ad', '');
  try {
    host = toASCII(host);
  } catch {
    return null;
  }
  if (host === '' || /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f]/.test(host)) return null;
  const labels = host.split('.');
  if (labels.length > 1 && labels.at(-1) === '') labels.pop();
  if (/^(?:[0-9]+|0x[0-9a-f]*)$/i.test(labels.at(-1))) return parseIPv4(host);
  return host;
}

const isDriveLetter = (text) => /^[a-zA-Z][:|]$/.test(text);
const isSingleDot = (text) => /^(?:\.|%2e)$/i.test(text);
const isDoubleDot = (text) => /^(?:\.|%2e){2}$/i.test(text);

function shorten(url) {
  if (url.protocol === 'file:' && url.path.length === 1 && /^[a-zA-Z]:$/.test(url.path[0])) return;
  url.path.pop();
}

/** Appends path segments to `url.path`, resolving dots. `text` starts after the first slash. */
export function parsePath(url, text) {
  const segments = text.split(isSpecial(url.protocol) ? /[/\\]/ : '/');
  segments.forEach((segment, i) => {
    const last = i === segments.length - 1;
    if (isDoubleDot(segment)) {
      shorten(url);
      if (last) url.path.push('');
    } else if (isSingleDot(segment)) {
      if (last) url.path.push('');
    } else {
      if (url.protocol === 'file:' && url.path.length === 0 && isDriveLetter(segment)) segment = `${segment[0]}:`;
      url.path.push(percentEncode(segment, PATH));
    }
  });
}

export const encodeQuery = (text, special) => percentEncode(text, special ? SPECIAL_QUERY : QUERY);
export const encodeFragment = (text) => percentEncode(text, FRAGMENT);
export const encodeUserInfo = (text) => percentEncode(text, USERINFO);
export const encodeOpaque = (text) => percentEncode(text, C0);

/** The port as it is written, '' for the scheme's default one, or null. */
export function parsePort(protocol, text) {
  if (!/^[0-9]*$/.test(text) || Number(text) > 65535) return null;
  if (text === '') return '';
  const port = String(Number(text));
  return DEFAULT_PORTS[protocol] === port ? '' : port;
}

/** Reads `user:password@host:port` into `url`; false if it is none. */
function parseAuthority(url, text) {
  const special = isSpecial(url.protocol);
  const at = text.lastIndexOf('@');
  if (at !== -1) {
    const credentials = text.slice(0, at);
    const colon = credentials.indexOf(':');
    url.username = encodeUserInfo(colon === -1 ? credentials : credentials.slice(0, colon));
    url.password = colon === -1 ? '' : encodeUserInfo(credentials.slice(colon + 1));
    text = text.slice(at + 1);
    if (text === '') return false;
  }
  const port = /:([^:\]]*)$/.exec(text);
  if (port) {
    url.port = parsePort(url.protocol, port[1]);
    if (url.port === null) return false;
    text = text.slice(0, port.index);
    if (text === '') return false;
  }
  if (text === '') {
    url.host = '';
    return !special;
  }
  url.host = parseHost(text, special);
  return url.host !== null;
}

function blank(protocol) {
  return { protocol, username: '', password: '', host: null, port: '', path: [], opaque: null, query: null, fragment: null };
}

function inherit(url, base, parts) {
  for (const part of parts) url[part] = Array.isArray(base[part]) ? [...base[part]] : base[part];
}

/** `//host/path` of a file URL; drive letters are paths, never hosts. */
function parseFile(url, rest, base) {
  url.host = '';
  if (/^[/\\]{2}/.test(rest)) {
    const end = rest.slice(2).search(/[/\\]/);
    const host = end === -1 ? rest.slice(2) : rest.slice(2, 2 + end);
    if (isDriveLetter(host)) {
      parsePath(url, rest.slice(2));
      return true;
    }
    if (host !== '') {
      url.host = parseHost(host, true);
      if (url.host === null) return false;
      if (url.host === 'localhost') url.host = '';
    }
    parsePath(url, end === -1 ? '' : rest.slice(3 + end));
    return true;
  }
  if (/^[/\\]/.test(rest)) {
    if (base?.protocol === 'file:') {
      url.host = base.host;
      if (!isDriveLetter(rest.slice(1, 3)) && /^[a-zA-Z]:$/.test(base.path[0] ?? '')) url.path.push(base.path[0]);
    }
    parsePath(url, rest.slice(1));
    return true;
  }
  if (base?.protocol === 'file:') {
    inherit(url, base, ['host', 'path']);
    if (rest === '') {
      if (url.query === null) url.query = base.query;
    } else if (isDriveLetter(rest.slice(0, 2))) {
      url.path = [];
      parsePath(url, rest);
    } else {
      shorten(url);
      parsePath(url, rest);
    }
    return true;
  }
  parsePath(url, rest);
  return true;
}

/** Everything after the scheme; `base` only where the Standard lets a URL lean on it. */
function parseRest(url, rest, base, relative) {
  const special = isSpecial(url.protocol);
  if (url.protocol === 'file:') return parseFile(url, rest, base);
  const slash = special ? /^[/\\]/ : /^\//;
  const twoSlashes = special ? /^[/\\]{2}/ : /^\/\//;
  if (relative && !twoSlashes.test(rest)) {
    inherit(url, base, ['username', 'password', 'host', 'port']);
    if (slash.test(rest)) {
      parsePath(url, rest.slice(1));
    } else {
      url.path = [...base.path];
      if (rest === '') {
        if (url.query === null) url.query = base.query;
      } else {
        shorten(url);
        parsePath(url, rest);
      }
    }
    return true;
  }
  if (special) rest = rest.replace(/^[/\\]*/, '//');
  if (twoSlashes.test(rest)) {
    const end = rest.slice(2).search(special ? /[/\\]/ : /\//);
    const authority = end === -1 ? rest.slice(2) : rest.slice(2, 2 + end);
    if (!parseAuthority(url, authority)) return false;
    if (end !== -1) parsePath(url, rest.slice(3 + end));
    else if (special) url.path.push('');
    return true;
  }
  if (rest.startsWith('/')) parsePath(url, rest.slice(1));
  else url.opaque = encodeOpaque(rest);
  return true;
}

/** Parses `input` against `base` (a parsed URL or null); null if it is no URL. */
export function parseUrl(input, base) {
  input = input.toWellFormed().replace(/^[\0-\x20]+|[\0-\x20]+$/g, '').replace(/[\t\n\r]/g, '');
  const hash = input.indexOf('#');
  const fragment = hash === -1 ? null : input.slice(hash + 1);
  if (hash !== -1) input = input.slice(0, hash);
  const scheme = /^([a-zA-Z][a-zA-Z0-9+.-]*):/.exec(input);
  const protocol = scheme ? `${scheme[1].toLowerCase()}:` : base?.protocol;
  if (protocol === undefined) return null;
  let rest = scheme ? input.slice(scheme[0].length) : input;
  const question = rest.indexOf('?');
  const query = question === -1 ? null : rest.slice(question + 1);
  if (question !== -1) rest = rest.slice(0, question);
  const url = blank(protocol);
  if (query !== null) url.query = encodeQuery(query, isSpecial(protocol));
  if (fragment !== null) url.fragment = encodeFragment(fragment);
  if (!scheme && base.opaque !== null) {
    if (rest !== '' || query !== null || fragment === null) return null;
    inherit(url, base, ['opaque', 'query', 'path', 'host']);
    return url;
  }
  const leansOnBase =
    !scheme || (base !== null && base.protocol === protocol && isSpecial(protocol) && !/^[/\\]/.test(rest));
  return parseRest(url, rest, base, leansOnBase && base !== null) ? url : null;
}

export function pathOf(url) {
  if (url.opaque !== null) return url.opaque;
  return url.path.map((segment) => `/${segment}`).join('');
}

export function serialize(url, withFragment = true) {
  let out = url.protocol;
  if (url.host !== null) {
    out += '//';
    if (url.username !== '' || url.password !== '') out += `${url.username}${url.password === '' ? '' : `:${url.password}`}@`;
    out += url.host + (url.port === '' ? '' : `:${url.port}`);
  } else if (url.opaque === null && url.path.length > 1 && url.path[0] === '') {
    out += '/.';
  }
  out += pathOf(url);
  if (url.query !== null) out += `?${url.query}`;
  if (withFragment && url.fragment !== null) out += `#${url.fragment}`;
  return out;
}
