// Key objects do not exist here.
export const key_export = () => undefined;
