// `util/types`.
import * as all from 'plimsoll:internal/types';

export default { ...all };
