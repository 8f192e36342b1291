// `buffer` without the prefix, as the source's modules import it.
export * from 'node:buffer';
export { default } from 'node:buffer';
