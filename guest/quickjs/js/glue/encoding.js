// Text encoders under the names the source's modules use.
export { TextEncoder, TextDecoder } from 'plimsoll:internal/encoding';
