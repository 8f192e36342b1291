// Type checks under the names the source's modules use.
export * from 'plimsoll:internal/types';
