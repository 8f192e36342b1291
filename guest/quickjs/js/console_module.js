// `console` as a module.
import { console } from 'plimsoll:console';

export default console;
