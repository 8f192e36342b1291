// Where a run with files stands. A run without files stays at the root.
export const WORK = '/work';

let folder = '/';

export const cwd = () => folder;

export function stand(at) {
  folder = at;
}
