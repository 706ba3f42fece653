// Requests to the worker, and what both pages share.

// The worker's text and the module. A worker made of a text has the page's Content-Security-Policy: it cannot connect to another server either.
const sources = async (name) => {
  const [script, module] = await Promise.all([fetch('worker.js'), fetch(`${name}.wasm`)])
  for (const { ok, url, status } of [script, module]) if (!ok) throw new Error(`${url}: status ${status}`)
  const url = URL.createObjectURL(new Blob([await script.text()], { type: 'text/javascript' }))
  return { url, module: await WebAssembly.compile(await module.arrayBuffer()) }
}
const loaded = new Map()

const failed = (message) => ({ answer: { failed: { message, help: 'load the page again', place: null } } })

/** A worker with a module, `images` or `designs`, that answers its requests; `onProgress` gets numbers of bytes. `end` ends it, whatever it does. */
export function makeWorker(name, onProgress = () => {}) {
  if (!loaded.has(name)) loaded.set(name, sources(name))
  const waiting = new Map()
  let next = 1
  const ready = loaded.get(name).then(({ url, module }) => {
    const worker = new Worker(url)
    worker.onmessage = ({ data }) => {
      if (data.progress !== undefined) return onProgress(data.progress)
      waiting.get(data.id)(data)
      waiting.delete(data.id)
    }
    worker.postMessage({ module })
    return worker
  })
  /** The whole message of the worker: `answer` has `done` or `failed`; `blob` are bytes of a file. */
  const ask = async (request, file) => {
    let worker
    try {
      worker = await ready
    } catch (error) {
      return failed(error.message)
    }
    return new Promise((resolve) => {
      waiting.set(next, resolve)
      worker.postMessage({ id: next, request, file })
      next += 1
    })
  }
  return { ask, waiting: () => waiting.size, end: () => ready.then((worker) => worker.terminate()) }
}

/** An element with attributes, properties (`.name`), listeners (`onname`) and children. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value)
    else if (key.startsWith('.')) element[key.slice(1)] = value
    else element.setAttribute(key, value === true ? '' : value)
  }
  element.append(...children.filter((child) => child !== null && child !== undefined))
  return element
}

/** A table with a caption; cells are texts or nodes, those of the columns `numeric` stand to the right, and those of `short` are not broken. */
export function table(caption, heads, rows, numeric = [], short = []) {
  const cell = (kind) => (content, at) => make(kind, { class: numeric.includes(at) ? 'n' : short.includes(at) ? 'nowrap' : null, scope: kind === 'th' ? 'col' : null }, content)
  return make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    make('table', {},
      make('caption', {}, caption),
      make('thead', {}, make('tr', {}, ...heads.map(cell('th')))),
      make('tbody', {}, ...rows.map((row) => make('tr', {}, ...row.map(cell('td')))))))
}

/** A failure with its advice. */
export function failure({ message, help }) {
  return make('div', { class: 'failed', role: 'alert' }, make('p', {}, message), help ? make('p', { class: 'note' }, `Help: ${help}`) : null)
}

/** Bytes in the largest unit that leaves digits before the point. */
export function size(bytes) {
  for (const [unit, name] of [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']]) {
    if (bytes >= unit) return `${bytes % unit === 0 ? bytes / unit : (bytes / unit).toFixed(1)} ${name}`
  }
  return `${bytes} ${bytes === 1 ? 'byte' : 'bytes'}`
}

/** A number with its noun. */
export function count(n, noun) {
  return `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : 's'}`
}

/** Saves a Blob under a name. */
export function save(blob, name) {
  const link = make('a', { href: URL.createObjectURL(blob), download: name })
  document.body.append(link)
  link.click()
  link.remove()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
