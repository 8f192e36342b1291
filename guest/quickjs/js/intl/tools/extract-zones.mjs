// Records the time zones node 22 knows (tz 2026e): their offsets from 1840 to 2051. Writes ../data/zones.js.
import fs from 'node:fs';
import path from 'node:path';

const START = Date.UTC(1840, 0, 1) / 60000, END = Date.UTC(2052, 0, 1) / 60000; // minutes
const ids = [...new Set([...Intl.supportedValuesOf('timeZone')])].filter(z => z !== 'UTC');
// Links people write, with the zone ICU gives for them.
const LINKS = ['GMT', 'Etc/UTC', 'Etc/GMT', 'Etc/UCT', 'Etc/Zulu', 'Zulu', 'UCT', 'Etc/Universal', 'Universal', 'Etc/Greenwich', 'Greenwich', 'GMT0', 'Etc/GMT0', 'Etc/GMT-0', 'Etc/GMT+0', 'US/Eastern', 'US/Central', 'US/Mountain', 'US/Pacific', 'US/Alaska', 'US/Hawaii', 'US/Arizona', 'US/Michigan', 'US/Indiana-Starke', 'US/East-Indiana', 'EST', 'MST', 'HST', 'EST5EDT', 'CST6CDT', 'MST7MDT', 'PST8PDT', 'CET', 'MET', 'EET', 'WET', 'GB', 'GB-Eire', 'Eire', 'Japan', 'Singapore', 'Hongkong', 'PRC', 'ROC', 'ROK', 'Israel', 'Turkey', 'Egypt', 'Iran', 'Cuba', 'Jamaica', 'Iceland', 'Poland', 'Portugal', 'Libya', 'NZ', 'NZ-CHAT', 'Navajo', 'W-SU', 'Kwajalein', 'Canada/Eastern', 'Canada/Central', 'Canada/Mountain', 'Canada/Pacific', 'Canada/Atlantic', 'Canada/Newfoundland', 'Canada/Saskatchewan', 'Canada/Yukon', 'Australia/ACT', 'Australia/NSW', 'Australia/North', 'Australia/Queensland', 'Australia/South', 'Australia/Tasmania', 'Australia/Victoria', 'Australia/West', 'Australia/Canberra', 'Brazil/East', 'Brazil/West', 'Brazil/Acre', 'Chile/Continental', 'Mexico/General', 'Asia/Kolkata', 'Asia/Calcutta', 'Asia/Katmandu', 'Asia/Kathmandu', 'Asia/Ho_Chi_Minh', 'Asia/Saigon', 'Asia/Yangon', 'Asia/Rangoon', 'Asia/Dacca', 'Asia/Dhaka', 'Asia/Tel_Aviv', 'Asia/Istanbul', 'Asia/Chongqing', 'Asia/Harbin', 'Asia/Macao', 'Asia/Thimbu', 'Asia/Ujung_Pandang', 'Asia/Ulan_Bator', 'Asia/Ashkhabad', 'Europe/Kyiv', 'Europe/Kiev', 'Europe/Belfast', 'Europe/Nicosia', 'Europe/Tiraspol', 'Europe/Uzhgorod', 'Europe/Zaporozhye', 'America/Buenos_Aires', 'America/Argentina/Buenos_Aires', 'America/Indianapolis', 'America/Indiana/Indianapolis', 'America/Louisville', 'America/Kentucky/Louisville', 'America/Fort_Wayne', 'America/Knox_IN', 'America/Montreal', 'America/Nuuk', 'America/Godthab', 'America/Atikokan', 'America/Coral_Harbour', 'America/Catamarca', 'America/Cordoba', 'America/Jujuy', 'America/Mendoza', 'America/Rosario', 'America/Shiprock', 'America/Ensenada', 'America/Santa_Isabel', 'America/Porto_Acre', 'America/Virgin', 'America/Atka', 'Atlantic/Faroe', 'Atlantic/Faeroe', 'Atlantic/Jan_Mayen', 'Pacific/Pohnpei', 'Pacific/Ponape', 'Pacific/Chuuk', 'Pacific/Truk', 'Pacific/Yap', 'Pacific/Kanton', 'Pacific/Enderbury', 'Pacific/Samoa', 'Pacific/Johnston', 'Africa/Asmara', 'Africa/Asmera', 'Africa/Timbuktu', 'Antarctica/South_Pole',
  ...Array.from({ length: 14 }, (_, i) => `Etc/GMT-${i + 1}`), ...Array.from({ length: 12 }, (_, i) => `Etc/GMT+${i + 1}`)];

const offsetReader = zone => {
  const f = new Intl.DateTimeFormat('en-US', { timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' });
  const cache = new Map();
  return minute => {
    let v = cache.get(minute);
    if (v === undefined) {
      const p = {};
      for (const { type, value } of f.formatToParts(minute * 60000)) p[type] = +value;
      cache.set(minute, v = Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute, p.second) / 1000 - minute * 60);
    }
    return v;
  };
};

function transitions(zone) {
  const at = offsetReader(zone), out = [at(START)], step = 60 * 24 * 13; // no two changes within a fortnight cancel out here
  let t = START, o = out[0];
  while (t < END) {
    const next = Math.min(t + step, END), p = at(next);
    if (p !== o) {
      let lo = t, hi = next;
      while (hi - lo > 1) { const mid = Math.floor((lo + hi) / 2); if (at(mid) === o) lo = mid; else hi = mid; }
      const n = at(hi);
      out.push([hi, n]);
      o = n;
      t = hi;
      continue;
    }
    t = next;
  }
  return out;
}

const known = {};
for (const zone of ids) {
  const t = transitions(zone);
  // offsets and transition minutes, base 36; deltas keep it short
  let last = START;
  known[zone] = [t[0].toString(36), ...t.slice(1).map(([m, o]) => { const d = m - last; last = m; return `${d.toString(36)}:${o.toString(36)}`; })].join(' ');
}
const links = { EST5EDT: 'America/New_York', CST6CDT: 'America/Chicago', MST7MDT: 'America/Denver', PST8PDT: 'America/Los_Angeles' };
for (const link of LINKS) {
  let target;
  try { target = new Intl.DateTimeFormat('en', { timeZone: link }).resolvedOptions().timeZone; } catch { continue; }
  if (target !== link && (ids.includes(target) || target === 'UTC')) links[link] = target;
  else if (target === link && !ids.includes(link)) {
    if (/^Etc\/GMT[+-]\d/.test(link)) { known[link] = offsetReader(link)(START).toString(36); } 
  }
}
const text = Object.keys(known).map(z => `${z}\t${known[z]}`).join('\n');
fs.writeFileSync(path.join(import.meta.dirname, '../data/zones.js'), `// Time zones from 1840 to 2051, recorded from node 22 (tz 2026e) by ../tools/extract-zones.mjs: name, first offset in seconds, then minutes to the next
// change and the offset from there, base 36.
export const ZONES = ${JSON.stringify(text)};
export const LINKS = ${JSON.stringify(Object.entries(links).map(([a, b]) => `${a} ${b}`).join('\n'))};
`);
console.log(ids.length, text.length, Object.keys(links).length);
