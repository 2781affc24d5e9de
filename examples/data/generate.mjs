// Writes the sample customers as CSV (RFC 4180, UTF-8) to standard output, the same bytes each time:
//   node examples/data/generate.mjs > examples/data/customers.csv
// Everything is invented. Email domains are reserved (RFC 2606); telephone numbers are from the ranges that regulators
// keep for fiction, and +999, assigned to no country, where there is none.

const ROWS = 1200
const SEED = 20260811
const LONG_NOTE_CHARACTERS = 10 * 1024
const COLUMNS = ['id', 'full_name', 'email', 'phone', 'birth_date', 'address', 'notes', 'balance', 'country']

const RLM = '\u200f'

/** Names are [as written, in Latin letters for the address of email]; phones have `#` for a digit. */
const PLACES = [
  {
    country: 'US',
    given: [['Ava'], ['Marcus'], ['Shanice'], ['Wyatt'], ['Joy-Ann'], ['D’Andre', 'dandre'], ['Mary Lou', 'marylou']],
    family: [['Whitfield'], ['O’Rourke', 'orourke'], ['Null'], ['Okonski'], ['St. Clair', 'stclair'], ['Begay']],
    phone: ['+1 202 555 01##', '(312) 555-01##'],
    address: (n) => `${n} Juniper Ave, Apt ${(n % 30) + 1}, Springfield`,
  },
  {
    country: 'GB',
    given: [['Alfie'], ['Nia'], ['Priti'], ['Hamish'], ['Siân', 'sian'], ['Zoë', 'zoe']],
    family: [['Ashworth'], ['Fitz-Hugh', 'fitzhugh'], ['Pryce'], ['McAllister'], ['Bâ', 'ba'], ['True']],
    phone: ['+44 20 7946 0###', '+44 7700 900###'],
    address: (n) => `Flat ${(n % 40) + 1}, "Rosebank", ${n} Mill Lane, Leeds`,
  },
  {
    country: 'FR',
    given: [
      ['Chloé', 'chloe'],
      ['Anaïs', 'anais'],
      ['François', 'francois'],
      ['Loïc', 'loic'],
      ['Gaëlle', 'gaelle'],
    ],
    family: [
      ['Lefèvre', 'lefevre'],
      ['d’Aubigné', 'daubigne'],
      ['Nuñez-Roy', 'nunezroy'],
      ['Cœurdacier', 'coeurdacier'],
    ],
    phone: ['+33 1 99 00 ## ##', '+33 6 39 98 ## ##'],
    address: (n) => `${n} bis, rue de l’Église, 69000 Lyon`,
  },
  {
    country: 'DE',
    given: [['Jürgen', 'juergen'], ['Änne', 'aenne'], ['Karl-Heinz', 'karlheinz'], ['Zeynep'], ['Sören', 'soeren']],
    family: [
      ['Weiß', 'weiss'],
      ['Großkopf', 'grosskopf'],
      ['von der Höh', 'vonderhoeh'],
      ['Müßig', 'muessig'],
      ['Yıldız', 'yildiz'],
    ],
    phone: ['+49 30 23125 ###', '+49 171 39200##'],
    address: (n) => `Straße des Flußufers ${n}, 04103 Leipzig`,
  },
  {
    country: 'PL',
    given: [
      ['Łukasz', 'lukasz'],
      ['Małgorzata', 'malgorzata'],
      ['Świętopełk', 'swietopelk'],
      ['Żaneta', 'zaneta'],
    ],
    family: [
      ['Wójcik', 'wojcik'],
      ['Błaszczyk', 'blaszczyk'],
      ['Źrebięcki', 'zrebiecki'],
      ['Gęś', 'ges'],
    ],
    phone: ['+999 22 ### ## ##'],
    address: (n) => `ul. Żółtej Ćmy ${n}/4, 31-000 Kraków`,
  },
  {
    country: 'IS',
    given: [
      ['Þórunn', 'thorunn'],
      ['Ægir', 'aegir'],
      ['Guðrún', 'gudrun'],
      ['Björk', 'bjork'],
    ],
    family: [
      ['Eiríksdóttir', 'eiriksdottir'],
      ['Ólafsson', 'olafsson'],
      ['Þorvaldsson', 'thorvaldsson'],
    ],
    phone: ['+999 5## ####'],
    address: (n) => `Hæðargata ${n}, 101 Reykjavík`,
  },
  {
    country: 'VN',
    given: [
      ['Thị Ngọc', 'thingoc'],
      ['Văn Đức', 'vanduc'],
      ['Phương', 'phuong'],
      ['Hữu Nghĩa', 'huunghia'],
    ],
    family: [
      ['Nguyễn', 'nguyen'],
      ['Trần', 'tran'],
      ['Đặng', 'dang'],
      ['Huỳnh', 'huynh'],
    ],
    phone: ['+999 24 #### ####'],
    address: (n) => `${n} Phố Hàng Mới, Hà Nội`,
    familyFirst: true,
  },
  {
    country: 'UA',
    given: [
      ['Оксана', 'oksana'],
      ['Їлена', 'yilena'],
      ['Ґео', 'geo'],
      ['Соломія', 'solomiia'],
    ],
    family: [
      ['Ковальчук', 'kovalchuk'],
      ['Щербань', 'shcherban'],
      ['Цюпа', 'tsiupa'],
      ['Дем’яненко', 'demianenko'],
    ],
    phone: ['+999 44 ### ## ##'],
    address: (n) => `вул. Вишнева, ${n}, Львів`,
  },
  {
    country: 'GR',
    given: [
      ['Ελένη', 'eleni'],
      ['Γιώργος', 'giorgos'],
      ['Άννα', 'anna'],
      ['Οδυσσέας', 'odysseas'],
    ],
    family: [
      ['Παπαδάκης', 'papadakis'],
      ['Ψαρρός', 'psarros'],
      ['Χατζηλία', 'chatzilia'],
    ],
    phone: ['+999 21 #### ####'],
    address: (n) => `Οδός Ελιάς ${n}, Πάτρα`,
  },
  {
    country: 'EG',
    given: [
      ['ليلى', 'layla'],
      ['يوسف', 'yusuf'],
      ['مُحَمَّد', 'muhammad'],
      ['عائشة', 'aisha'],
    ],
    family: [
      ['المنصوري', 'almansouri'],
      ['عبد الرحمن', 'abdelrahman'],
      ['النجّار', 'alnajjar'],
    ],
    phone: ['+999 2 #### ####'],
    address: (n) => `${RLM}شارع النخيل ${n}، القاهرة${RLM}`,
  },
  {
    country: 'IL',
    given: [
      ['נועה', 'noa'],
      ['איתן', 'eitan'],
      ['שִׁירָה', 'shira'],
    ],
    family: [
      ['בן־דוד', 'bendavid'],
      ['כהן־צדק', 'kohentzedek'],
      ['לביא', 'lavi'],
    ],
    phone: ['+999 3 ### ####'],
    address: (n) => `${RLM}רחוב הזית ${n}, חיפה`,
  },
  {
    country: 'CN',
    given: [
      ['伟', 'wei'],
      ['秀英', 'xiuying'],
      ['子涵', 'zihan'],
      ['𠮷祥', 'jixiang'],
    ],
    family: [
      ['王', 'wang'],
      ['欧阳', 'ouyang'],
      ['李', 'li'],
      ['龘', 'da'],
    ],
    phone: ['+999 10 #### ####'],
    address: (n) => `南京市银杏路${n}号`,
    familyFirst: true,
    joint: '',
  },
  {
    country: 'JP',
    given: [
      ['さくら', 'sakura'],
      ['翔太', 'shota'],
      ['ケイト', 'keito'],
      ['美咲', 'misaki'],
    ],
    family: [
      ['髙橋', 'takahashi'],
      ['渡邉', 'watanabe'],
      ['小鳥遊', 'takanashi'],
    ],
    phone: ['+999 3 #### ####'],
    address: (n) => `京都市もみじ町${n}番地`,
    familyFirst: true,
    joint: '\u3000',
  },
  {
    country: 'KR',
    given: [
      ['지우', 'jiwoo'],
      ['민준', 'minjun'],
      ['서연', 'seoyeon'],
    ],
    family: [
      ['김', 'kim'],
      ['황보', 'hwangbo'],
      ['이', 'lee'],
    ],
    phone: ['+999 2 #### ####'],
    address: (n) => `서울시 은행나무길 ${n}`,
    familyFirst: true,
    joint: '',
  },
  {
    country: 'IN',
    given: [
      ['आरव', 'aarav'],
      ['प्रिया', 'priya'],
      ['श्रीकृष्ण', 'shrikrishna'],
      ['ज़ोया', 'zoya'],
    ],
    family: [
      ['शर्मा', 'sharma'],
      ['क्षत्रिय', 'kshatriya'],
      ['द्विवेदी', 'dwivedi'],
    ],
    phone: ['+999 11 #### ####'],
    address: (n) => `${n}, नीम मार्ग, जयपुर`,
  },
  {
    country: 'TH',
    given: [
      ['กิตติ', 'kitti'],
      ['น้ำฝน', 'namfon'],
    ],
    family: [
      ['ศรีสุข', 'srisuk'],
      ['วงศ์ใหญ่', 'wongyai'],
    ],
    phone: ['+999 2 ### ####'],
    address: (n) => `${n} ถนนดอกบัว เชียงใหม่`,
  },
  {
    country: 'NG',
    given: [
      ['Ọlámídé', 'olamide'],
      ['Chiọma', 'chioma'],
      ['Àdùkẹ́', 'aduke'],
    ],
    family: [
      ['Adébáyọ̀', 'adebayo'],
      ['Ńwáńkwọ́', 'nwankwo'],
      ['Ẹ̀bùn', 'ebun'],
    ],
    phone: ['+999 1 ### ####'],
    address: (n) => `${n} Palm Road, Ìbàdàn`,
  },
  {
    country: 'BR',
    given: [
      ['João', 'joao'],
      ['Conceição', 'conceicao'],
      ['Antônia', 'antonia'],
    ],
    family: [
      ['da Conceição', 'daconceicao'],
      ['Araújo', 'araujo'],
      ['Simões-Guimarães', 'simoesguimaraes'],
    ],
    phone: ['+999 11 ##### ####'],
    address: (n) => `Rua das Acácias, ${n}, São Luís`,
  },
]

const NOTES = [
  'Prefers to be called in the morning.',
  'Said: "never again", then ordered twice.',
  'Paid late; reminded; paid.\nReminded again in March.',
  'Line one\r\nLine two\r\nLine three',
  'Birthday card 🎂🎉 sent',
  'Family account 👨‍👩‍👧‍👦, two flags 🇧🇷🇮🇸, thumbs 👍🏽',
  'Comma, semicolon; tab\there, pipe | and back\\slash',
  '"quoted from end to end"',
  '""',
  "'; drop table customers; --",
  '<b>bold</b> &amp; {"json": [1, null]}',
  `Wrote in two directions: abc ${RLM}שלום${RLM} def \u200eمرحبا\u200e`,
  'x² + y² ≠ ∞ · ½ · € £ ₹ · …',
  'z͑ͫ̓ͪ̂ͫ̽a̴̵̜̰l̖͉g͈o',
]

/** What spreadsheets, loaders and type guessing like to spoil. */
const TRAPS = ['=1+1', '+1+1', '-1', '@SUM(A1:A9)', 'NULL', 'null', 'true', '1e3', '007', '0x1F', 'NaN', '1/2', '\\N']

process.stdout.write(generate())

function generate() {
  const random = mulberry32(SEED)
  const rows = Array.from({ length: ROWS }, (_, index) => customer(index + 1, random))
  return [COLUMNS, ...rows].map((cells) => `${cells.map(quote).join(',')}\r\n`).join('')
}

function customer(id, random) {
  const pick = (list) => list[Math.floor(random() * list.length)]
  const place = pick(PLACES)
  const given = pick(place.given)
  const family = pick(place.family)
  const fullName = (place.familyFirst ? [family, given] : [given, family])
    .map(([name]) => name)
    .join(place.joint ?? ' ')
  const latin = [given, family].map((name) => (name[1] ?? name[0]).toLowerCase()).join('.')
  const sometimes = (chance, value) => (random() < chance ? value : '')
  const row = {
    id: String(id),
    full_name: fullName.normalize(id % 7 === 0 ? 'NFD' : 'NFC'),
    email: `${latin}${sometimes(0.1, '+shop')}.${id}@example.${pick(['com', 'org', 'net'])}`,
    phone: sometimes(0.9, digits(pick(place.phone), random)),
    birth_date: sometimes(0.9, birthDate(random)),
    address: sometimes(0.95, place.address(1 + Math.floor(random() * 400))),
    notes: sometimes(0.6, pick(NOTES)),
    balance: sometimes(0.95, ((random() - 0.2) * 10 ** (2 + Math.floor(random() * 4))).toFixed(2)),
    country: place.country,
  }
  return Object.values(withFaults(row, id))
}

/** The awkward rows stand at fixed places, so that each feature is there whatever the seed. */
function withFaults(row, id) {
  if (id % 50 === 1) return { ...row, notes: TRAPS[Math.floor(id / 50) % TRAPS.length] }
  if (id % 100 === 2) return { ...row, full_name: `  ${row.full_name}`, notes: ' leading and trailing \t' }
  if (id % 100 === 3) return { ...row, balance: '007' }
  if (id % 100 === 4) return { ...row, notes: '\n' }
  if (id % 100 === 5) return { ...row, phone: '', birth_date: '', address: '', notes: '', balance: '' }
  if (id === 600) return { ...row, notes: longNote() }
  return row
}

function longNote() {
  const sentence = 'Long talk on the telephone, “word for word”: naïve, 東京, العربية, 🙂. '
  return sentence.repeat(Math.ceil(LONG_NOTE_CHARACTERS / sentence.length))
}

function birthDate(random) {
  const from = Date.UTC(1930, 0, 1)
  const until = Date.UTC(2006, 11, 31)
  return new Date(from + random() * (until - from)).toISOString().slice(0, 'yyyy-mm-dd'.length)
}

function digits(pattern, random) {
  return pattern.replace(/#/g, () => String(Math.floor(random() * 10)))
}

/** RFC 4180 section 2: a cell with a quote, a comma or a line break stands in quotes, its own quotes doubled. */
function quote(cell) {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}

/** A 32-bit generator with a seed: the same rows on every machine. Not for secrets. */
function mulberry32(seed) {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}
