// Stands in for the source's native layer: proxies, promises, own keys.
import { native } from 'plimsoll:internal/native';

export const ALL_PROPERTIES = 0;
export const ONLY_ENUMERABLE = 2;
export const getOwnNonIndexProperties = (object, filter) => native.nonIndexKeys(object, filter === ONLY_ENUMERABLE);

export function getProxyDetails(value, full = true) {
  const details = native.proxyDetails(value);
  return details === undefined || full ? details : details[0];
}
