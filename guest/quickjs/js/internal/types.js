// `util.types`, decided by the engine's class numbers: no getter, no prototype and no proxy of the guest is consulted.
import { native } from 'plimsoll:kernel/native';

const { classId } = native;

const is = (sample) => {
  const id = classId(sample);
  return (value) => classId(value) === id;
};

function sampleArguments() {
  return arguments;
}

const strictArguments = classId(sampleArguments());
// Sloppy functions with parameters get the mapped kind.
const mappedArguments = classId(new Function('a', 'return arguments')(1));

export const isArgumentsObject = (value) => {
  const id = classId(value);
  return id === strictArguments || id === mappedArguments;
};
export const isArrayBuffer = is(new ArrayBuffer(0));
export const isSharedArrayBuffer =
  typeof SharedArrayBuffer === 'function' ? is(new SharedArrayBuffer(0)) : () => false;
export const isAnyArrayBuffer = (value) => isArrayBuffer(value) || isSharedArrayBuffer(value);
const asyncFunction = classId(async () => {});
const asyncGeneratorFunction = classId(async function* () {});
const generatorFunction = classId(function* () {});
export const isAsyncFunction = (value) => {
  const id = classId(value);
  return id === asyncFunction || id === asyncGeneratorFunction;
};
export const isGeneratorFunction = (value) => {
  const id = classId(value);
  return id === generatorFunction || id === asyncGeneratorFunction;
};
const generator = classId((function* () {})());
const asyncGenerator = classId((async function* () {})());
export const isGeneratorObject = (value) => {
  const id = classId(value);
  return id === generator || id === asyncGenerator;
};
export const isBooleanObject = is(Object(true));
export const isNumberObject = is(Object(1));
export const isStringObject = is(Object(''));
export const isSymbolObject = is(Object(Symbol.iterator));
export const isBigIntObject = is(Object(1n));
export const isBoxedPrimitive = (value) =>
  isNumberObject(value) || isStringObject(value) || isBooleanObject(value) || isBigIntObject(value) || isSymbolObject(value);
export const isDataView = is(new DataView(new ArrayBuffer(0)));
export const isDate = is(new Date(0));
export const isMap = is(new Map());
export const isSet = is(new Set());
export const isWeakMap = is(new WeakMap());
export const isWeakSet = is(new WeakSet());
export const isMapIterator = is(new Map().keys());
export const isSetIterator = is(new Set().keys());
export const isNativeError = is(new Error());
export const isPromise = is(Promise.resolve());
export const isProxy = (value) => native.proxyDetails(value) !== undefined;
export const isRegExp = is(/a/);
const arrayBufferIsView = ArrayBuffer.isView;
export const isArrayBufferView = (value) => arrayBufferIsView(value);
export const isTypedArray = (value) => arrayBufferIsView(value) && !isDataView(value);
export const isUint8Array = is(new Uint8Array());
export const isUint8ClampedArray = is(new Uint8ClampedArray());
export const isUint16Array = is(new Uint16Array());
export const isUint32Array = is(new Uint32Array());
export const isInt8Array = is(new Int8Array());
export const isInt16Array = is(new Int16Array());
export const isInt32Array = is(new Int32Array());
export const isFloat32Array = is(new Float32Array());
export const isFloat64Array = is(new Float64Array());
export const isBigInt64Array = is(new BigInt64Array());
export const isBigUint64Array = is(new BigUint64Array());
export const isModuleNamespaceObject = () => false;
export const isExternal = () => false;
export const isKeyObject = () => false;
export const isCryptoKey = () => false;
