// The source's `url` module decorates the URL class of its native layer. It gets this stand-in, so that ours stays as it is.
import { URL as RealURL } from 'plimsoll:internal/url';
import { parseHost } from 'plimsoll:internal/url-parse';
import { toUnicode } from 'node:punycode';

export class URL {
  constructor(...args) {
    return new RealURL(...args);
  }

  static [Symbol.hasInstance](value) {
    return value instanceof RealURL;
  }
}

export const domainToASCII = (domain) => parseHost(domain, true) ?? '';
export const domainToASCIILegacy = domainToASCII;
export const domainToUnicode = (domain) => {
  const host = parseHost(domain, true);
  return host === null ? '' : toUnicode(host);
};
