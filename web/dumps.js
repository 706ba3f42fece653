// Open a dump: map, images, files, check and repair.
import { count, failure, make, makeWorker, save, size, table } from './ask.js'

const PATH = 'dump'
const PREVIEW = 64 * 1024
const SHOWN = 2000
const element = (id) => document.getElementById(id)

// The chosen file, what is meant in it, and the folder that is shown.
let file = null
let of = { path: PATH }
let images = []
let folder = '/'
let worker

function newWorker() {
  worker = makeWorker('images', (bytes) => {
    const bar = element('bar')
    if (file && bytes <= file.size) {
      bar.max = file.size
      bar.value = bytes
    } else bar.removeAttribute('value')
    element('done').textContent = size(bytes)
  })
}
newWorker()

let stopped
/** Sends a request, and shows progress meanwhile. Resolves to the message of the worker. */
async function ask(what, request, chosen) {
  element('status').textContent = what
  element('working').hidden = false
  element('bar').removeAttribute('value')
  element('done').textContent = ''
  const stop = new Promise((resolve) => { stopped = resolve })
  const message = await Promise.race([worker.ask(request, chosen), stop])
  if (worker.waiting() === 0 || message.stopped) {
    element('working').hidden = true
    element('status').textContent = message.answer.failed ? '' : `${what.replace(/…$/, '')}: done.`
  }
  return message
}

/** Ends the worker with all that it does, and opens the file in a new one. */
function stop() {
  worker.end()
  newWorker()
  if (file) worker.ask({ do: 'open', path: PATH }, file)
  stopped({ stopped: true, answer: { failed: { message: 'stopped', help: null } } })
}

function replace(id, ...children) {
  element(id).replaceChildren(...children.filter(Boolean))
}

const hex = (n) => `0x${n.toString(16)}`

function facts(part) {
  return Object.entries(part.facts ?? {}).map(([name, value]) => {
    const words = name.replaceAll('_', ' ')
    if (name === 'time') return `${words} ${date(value)}`
    if (name === 'load' || name === 'entry') return `${words} ${hex(value)}`
    return `${words} ${typeof value === 'number' && !Number.isInteger(value) ? value.toFixed(2) : value}`
  }).join(', ')
}

function date(seconds) {
  const time = new Date(Number(seconds) * 1000)
  return Number.isNaN(time.getTime()) ? String(seconds) : time.toISOString().replace('T', ' ').slice(0, 16)
}

const CHECKS = { good: 'good', bad: 'BAD', truncated: 'CUT OFF', none: '-' }
const GAPS = ['erased', 'zeros', 'data']
const READABLE = ['ubi', 'ubifs', 'jffs2']

function showMap({ answer }) {
  if (answer.failed) return replace('map', failure(answer.failed))
  const { report, text, readable } = answer.done
  const row = (part, number) => {
    const scattered = part.kind === 'ubi-volume'
    const bad = part.checksum === 'bad' || part.checksum === 'truncated'
    const name = `${'\u2003'.repeat(part.level)}${part.kind.replaceAll('-', ' ')}${part.name ? ` ${part.name}` : ''}`
    const check = GAPS.includes(part.kind) ? '' : CHECKS[part.checksum]
    const label = `Save the ${part.kind} at ${hex(part.offset)}`
    return [
      scattered ? '' : hex(part.offset), scattered ? '' : size(part.len), name,
      bad ? make('span', { class: 'bad' }, check) : check, facts(part),
      scattered || part.len === 0 ? '' : make('button', { type: 'button', class: 'plain', 'aria-label': label, onclick: () => savePart(part) }, 'Save'),
      readable.includes(number) ? make('button', { type: 'button', class: 'plain', 'aria-label': `Save the files of the ${part.kind} at ${hex(part.offset)} as zip`, onclick: () => extract('zip', number) }, 'Save as zip') : '',
    ]
  }
  const parts = report.parts.slice(0, SHOWN)
  replace('map',
    make('p', {}, text),
    report.pages ? make('p', { class: 'note' }, `NAND dump with pages of ${report.pages.page_bytes} + ${report.pages.oob_bytes} bytes: offsets do not count the OOB`) : null,
    ...report.notes.map((note) => make('p', { class: 'note' }, note)),
    table(`${count(report.parts.length, 'part')} of the dump${parts.length < report.parts.length ? `, the first ${SHOWN} are shown` : ''}`,
      ['Offset', 'Size', 'What', 'Check', 'Details', 'Bytes', 'Files'], parts.map(row), [0, 1], [3, 5, 6]),
    report.partitions.length > 0
      ? table('Partitions', ['Offset', 'Size', 'Partition', 'Listed by'],
        report.partitions.map((p) => [hex(p.offset), p.len === null ? 'rest' : size(p.len), p.name, p.source]), [0, 1])
      : null)
}

async function savePart(part) {
  const message = await ask('Reading the part…', { do: 'part', of: { ...of, offset: null, volume: null }, offset: part.offset, len: part.len })
  if (message.answer.failed) return replace('map', failure(message.answer.failed))
  save(message.blob ?? new Blob([]), `${hex(part.offset)}-${part.kind}.bin`)
}

function showInfo({ answer }) {
  images = answer.failed ? [] : answer.done.report.images
  if (answer.failed) replace('info', failure(answer.failed))
  else replace('info', make('pre', { tabindex: 0, role: 'region', 'aria-label': 'Images in the dump' }, answer.done.text))
  const kind = (image) => (image.ubi ? 'UBI' : image.jffs2 ? 'JFFS2' : 'UBIFS')
  element('image').replaceChildren(...images.map((image) => make('option', { value: image.offset }, `${kind(image)} at ${hex(image.offset)}, ${size(image.len)}`)))
  element('image-label').hidden = images.length < 2
  chooseImage()
}

function chooseImage() {
  const image = images[element('image').selectedIndex] ?? images[0]
  const volumes = image?.ubi?.volumes ?? []
  const label = (volume) => `${volume.name}${volume.ubifs ? '' : volume.starts_with ? ` (${volume.starts_with})` : ' (no UBIFS)'}`
  element('volume').replaceChildren(...volumes.map((volume) => make('option', { value: volume.id, selected: Boolean(volume.ubifs) && volume === volumes.find((v) => v.ubifs) }, label(volume))))
  element('volume-label').hidden = volumes.length < 2
  choose()
}

function choose() {
  of = { ...of, offset: images.length > 1 ? Number(element('image').value) : null, volume: element('volume-label').hidden ? null : element('volume').value }
  replace('extracted')
  replace('preview')
  replace('checked')
  return images.length > 0 ? showFolder('/') : replace('files', make('p', { class: 'note' }, 'There is no filesystem that can be listed.'))
}

function mode(row) {
  const letters = 'rwxrwxrwx'
  const kinds = { directory: 'd', symlink: 'l', 'block-device': 'b', 'character-device': 'c', fifo: 'p', socket: 's' }
  const bits = [...letters].map((letter, at) => (row.permissions & (1 << (8 - at)) ? letter : '-')).join('')
  return (kinds[row.type] ?? '-') + bits
}

const nameOf = (path) => path.slice(path.lastIndexOf('/') + 1)
const join = (path, name) => (path === '/' ? `/${name}` : `${path}/${name}`)

async function showFolder(path) {
  const message = await ask('Listing…', { do: 'ls', of, folder: path })
  const { answer } = message
  const has = !answer.failed
  replace('preview')
  if (!has) {
    replace('path')
    return replace('files', failure(answer.failed), make('p', { class: 'note' }, 'A damaged filesystem is still extracted as far as it can be read, and repaired.'))
  }
  folder = path
  const names = path.split('/').filter(Boolean)
  const crumbs = [['/', '/'], ...names.map((name, at) => [name, `/${names.slice(0, at + 1).join('/')}`])]
  replace('path', ...crumbs.flatMap(([name, to], at) => [at > 1 ? ' / ' : ' ',
    at === crumbs.length - 1 ? make('strong', {}, name) : make('button', { type: 'button', class: 'plain', onclick: () => showFolder(to) }, name)]))
  const { rows, refused } = answer.done
  const entry = (row) => {
    const name = nameOf(row.path)
    const open = row.type === 'directory' ? () => showFolder(join(path, name)) : row.type === 'file' ? () => preview(join(path, name), row) : null
    const text = `${name}${row.type === 'directory' ? '/' : ''}${row.target !== null ? ` -> ${row.target}` : ''}`
    return [
      open ? make('button', { type: 'button', class: 'plain', onclick: open }, text) : text,
      row.device ? row.device.join(', ') : row.type === 'file' ? size(row.size) : '',
      mode(row), `${row.uid}:${row.gid}`, date(row.mtime.split('.')[0]),
    ]
  }
  replace('files',
    table(`${count(rows.length, 'entry').replace(/entrys$/, 'entries')} in ${path}${rows.length > SHOWN ? `, the first ${SHOWN} are shown` : ''}`,
      ['Name', 'Size', 'Mode', 'Owner', 'Changed (UTC)'], rows.slice(0, SHOWN).map(entry), [1], [2, 3, 4]),
    ...refused.map(({ path: at, why }) => make('p', { class: 'bad' }, `not listed: ${at}: ${why}`)))
}

function hexdump(bytes) {
  const lines = []
  for (let at = 0; at < bytes.length; at += 16) {
    const line = [...bytes.subarray(at, at + 16)]
    const codes = line.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(47)
    lines.push(`${at.toString(16).padStart(8, '0')}  ${codes}  ${line.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '.')).join('')}`)
  }
  return lines.join('\n')
}

const PICTURES = [['image/png', [0x89, 0x50, 0x4e, 0x47]], ['image/jpeg', [0xff, 0xd8, 0xff]], ['image/gif', [0x47, 0x49, 0x46, 0x38]], ['image/webp', [0x52, 0x49, 0x46, 0x46]]]

/** The text of a file, if it is UTF-8 without control characters; a character may be cut off at the end. */
function textOf(bytes) {
  let text
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
  } catch {
    return null
  }
  return /[\0-\x08\x0e-\x1a\x1c-\x1f]/.test(text) ? null : text
}

async function preview(path, row) {
  const read = (most) => ask(most === null ? 'Reading the file…' : 'Reading…', { do: 'cat', of, file: path, most })
  const message = await read(PREVIEW)
  if (message.answer.failed) return replace('preview', failure(message.answer.failed))
  const bytes = new Uint8Array(await (message.blob ?? new Blob([])).arrayBuffer())
  const picture = PICTURES.find(([, magic]) => magic.every((byte, at) => bytes[at] === byte))
  const text = picture ? null : textOf(bytes)
  let shown
  if (picture) {
    const whole = row.size > bytes.length ? await read(null) : message
    const url = URL.createObjectURL(new Blob([whole.blob], { type: picture[0] }))
    shown = make('img', { src: url, alt: `Picture ${nameOf(path)}` })
  } else if (text !== null) shown = make('pre', { tabindex: 0, role: 'region', 'aria-label': `Text of ${path}` }, text)
  else shown = make('pre', { tabindex: 0, role: 'region', class: 'dump', 'aria-label': `Bytes of ${path}` }, hexdump(bytes.subarray(0, 4096)))
  const whole = async () => {
    const message = await read(null)
    if (message.answer.failed) return replace('preview', failure(message.answer.failed))
    save(message.blob ?? new Blob([]), nameOf(path))
  }
  const part = !picture && row.size > (text === null ? 4096 : PREVIEW) ? `, the first ${size(text === null ? 4096 : PREVIEW)} are shown` : ''
  replace('preview',
    make('h3', {}, path),
    make('p', { class: 'note' }, `${size(row.size)}${part} `),
    make('p', {}, make('button', { type: 'button', onclick: whole }, `Save ${nameOf(path)}`)),
    shown)
  element('preview').scrollIntoView({ block: 'nearest' })
}

function lossTable(list, what) {
  if (list.length === 0) return null
  return table(`${count(list.length, what)}${list.length > SHOWN ? `, the first ${SHOWN} are shown` : ''}`, ['Path', 'What'], list.slice(0, SHOWN).map((loss) => [loss.path, loss.what]))
}

/** Fetches the bytes of a file that the module has written, and forgets it there. */
async function take(out, name) {
  const { answer, blob } = await ask('Saving…', { do: 'file', path: out })
  if (answer.failed) return failure(answer.failed)
  const bytes = blob ?? new Blob([])
  return make('p', {}, make('button', { type: 'button', class: 'save', onclick: () => save(bytes, name), '.bytes': bytes }, `Save ${name}`), ` ${size(bytes.size)}`)
}

async function extract(archive, part = null) {
  const name = `${file.name.replace(/\.[^.]*$/, '')}${part === null ? '' : `-part-${part}`}.${archive}`
  const { answer } = await ask('Extracting…', { do: 'extract', of, archive, out: name, part })
  if (answer.failed) return replace('extracted', failure(answer.failed))
  const { report } = answer.done
  const link = await take(name, name)
  replace('extracted',
    make('p', {}, `${count(report.entries, 'entry').replace(/entrys$/, 'entries')}, ${size(report.bytes)}${report.losses.length === 0 ? '; nothing is lost' : ''}`),
    link, ...report.notes.map((note) => make('p', { class: 'note' }, note)), lossTable(report.losses, 'loss'))
}

const OUTCOMES = { clean: 'Clean: nothing is wrong.', recoverable: 'Recoverable: Linux recovers it when it attaches and mounts.', damaged: 'Damaged: something is lost, or Linux does not accept it.' }

function findings(report) {
  const order = ['damaged', 'recoverable', 'clean']
  const all = [...report.findings].sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity))
  const row = (finding) => [
    finding.severity === 'damaged' ? make('span', { class: 'bad' }, 'damaged') : finding.severity === 'clean' ? 'note' : finding.severity,
    finding.offset === null ? '' : hex(finding.offset), `${finding.structure}: ${finding.what}`, finding.consequence,
    finding.paths.join(', ') + (finding.more_paths > 0 ? ` and ${finding.more_paths} more` : ''),
  ]
  return [
    make('p', { class: report.outcome === 'damaged' ? 'bad' : null }, OUTCOMES[report.outcome]),
    all.length > 0 ? table(count(all.length + report.unlisted, 'finding'), ['Severity', 'Offset', 'What', 'Consequence', 'Files'], all.slice(0, SHOWN).map(row), [1], [0]) : null,
  ]
}

async function check() {
  const { answer } = await ask('Checking…', { do: 'check', of: { ...of, volume: null } })
  replace('checked', ...(answer.failed ? [failure(answer.failed)] : findings(answer.done.report)))
}

const REPAIRS = {
  intact: 'Nothing was wrong with it: the new file is a copy.',
  wholly: 'The new file is clean and holds all that the old one held.',
  'with-losses': 'The new file is clean; what is lost, or may be, is listed.',
}

async function repair() {
  const dot = file.name.lastIndexOf('.')
  const name = dot > 0 ? `${file.name.slice(0, dot)}-repaired${file.name.slice(dot)}` : `${file.name}-repaired`
  const { answer } = await ask('Repairing…', { do: 'repair', of: { ...of, volume: null }, out: name })
  if (answer.failed) return replace('checked', failure(answer.failed))
  const { report } = answer.done
  const link = await take(name, name)
  replace('checked', make('h3', {}, 'Repaired'), make('p', {}, REPAIRS[report.outcome]), link,
    lossTable(report.losses, 'loss'), make('h3', {}, 'Before the repair'), ...findings(report.before).filter(Boolean))
}

async function open(chosen, sizes = {}) {
  if (!chosen) return
  file = chosen
  of = { path: PATH, ...sizes }
  for (const id of ['map', 'info', 'files', 'path', 'extracted', 'preview', 'checked']) replace(id)
  element('opened').hidden = false
  element('name').textContent = `${file.name}, ${size(file.size)}`
  const { answer } = await ask('Opening…', { do: 'open', path: PATH }, file)
  if (answer.failed) return replace('map', failure(answer.failed))
  showMap(await ask('Mapping…', { do: 'map', of }))
  showInfo(await ask('Reading the images…', { do: 'info', of }))
}

element('file').addEventListener('change', ({ target }) => open(target.files[0]))
const drop = element('drop')
for (const kind of ['dragenter', 'dragover']) {
  document.addEventListener(kind, (event) => {
    event.preventDefault()
    drop.classList.add('over')
  })
}
document.addEventListener('dragleave', ({ relatedTarget }) => { if (!relatedTarget) drop.classList.remove('over') })
document.addEventListener('drop', (event) => {
  event.preventDefault()
  drop.classList.remove('over')
  open(event.dataTransfer.files[0])
})
element('example').addEventListener('click', async () => {
  const response = await fetch('example.jffs2')
  open(new File([await response.blob()], 'example.jffs2'))
})
element('sizes').addEventListener('submit', (event) => {
  event.preventDefault()
  const stated = [...new FormData(event.target)].filter(([, value]) => value !== '').map(([name, value]) => [name, Number(value)])
  open(file, Object.fromEntries(stated))
})
element('choice').addEventListener('submit', (event) => event.preventDefault())
element('image').addEventListener('change', chooseImage)
element('volume').addEventListener('change', choose)
element('tar').addEventListener('click', () => extract('tar'))
element('zip').addEventListener('click', () => extract('zip'))
element('check').addEventListener('click', check)
element('repair').addEventListener('click', repair)
element('stop').addEventListener('click', stop)
if (location.protocol === 'file:') {
  replace('status', failure({ message: 'a page that is opened as a file cannot load WebAssembly', help: 'serve the folder, as with: python3 -m http.server' }))
}
// For the test of the page.
window.floatgate = {
  idle: () => element('working').hidden && !element('opened').hidden,
  async raw(request) {
    const { answer, blob, memory, read } = await worker.ask(request)
    const digest = blob ? await crypto.subtle.digest('SHA-256', await blob.arrayBuffer()) : null
    return { answer, memory, read, sha256: digest && [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('') }
  },
}
