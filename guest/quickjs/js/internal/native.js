// The private native helpers, captured before the shim removes their global. Guest code never reaches this object.
export const native = globalThis.__native;
