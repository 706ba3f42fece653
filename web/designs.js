// Try a design: setups of the catalogue or own text, measured at each change.
import { failure, make, makeWorker, table } from './ask.js'

const element = (id) => document.getElementById(id)
const FIRST = 'am62a-w35n01jw'
const SWEPT = ['bus.clock_hz', 'bus.mode', 'bus.interface', 'chip', 'controller', 'driver.continuous', 'host.wakeup_us', 'host.page_us']

let catalogue
let colours = {}
const texts = new Map()

const svg = (name, attributes, ...children) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name)
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value)
  node.append(...children)
  return node
}

/** Answers to the newest request only: an older one that waits is dropped. */
class Newest {
  constructor(worker) {
    this.worker = worker
    this.busy = false
    this.next = null
  }

  ask(request, done) {
    this.next = { request, done }
    if (!this.busy) this.run()
  }

  async run() {
    this.busy = true
    while (this.next) {
      const { request, done } = this.next
      this.next = null
      const { answer } = await this.worker.ask(request)
      if (!this.next) done(answer)
    }
    this.busy = false
  }
}

const number = (n) => n.toLocaleString('en', { maximumFractionDigits: n < 100 ? 1 : 0 })

function time(us) {
  if (us >= 1e6) return `${number(us / 1e6)} s`
  if (us >= 1e3) return `${number(us / 1e3)} ms`
  return `${number(us)} µs`
}

/** One of the designs that stand side by side. */
class Design {
  constructor(title, state, changed) {
    this.title = title
    this.changed = changed
    this.worker = makeWorker('designs')
    this.newest = new Newest(this.worker)
    this.state = { setup: FIRST, text: null, chip: '', controller: '', host: '', mode: '', fs: '', sets: '', ...state }
    this.build()
  }

  choice(name, label, options) {
    const list = make('select', { name, onchange: () => this.set(name, list.value) },
      make('option', { value: '' }, 'as the setup says'),
      ...options.map(([value, text]) => make('option', { value }, text)))
    list.value = this.state[name]
    this.lists[name] = list
    return make('label', {}, label, list)
  }

  build() {
    const named = (rows) => rows.map(({ name, title }) => [name, title ? `${name}: ${title}` : name])
    this.lists = {}
    const setup = this.setup = make('select', { onchange: () => this.begin(setup.value) },
      ...catalogue.setups.map(({ name, title }) => make('option', { value: name }, title ? `${title}` : name)))
    setup.value = this.state.setup
    this.marks = make('div', { class: 'marks', 'aria-hidden': 'true' })
    this.text = make('textarea', { rows: 14, spellcheck: 'false', autocomplete: 'off', id: `text-${this.title}`, 'aria-describedby': `said-${this.title}`, oninput: () => this.write() })
    this.text.addEventListener('scroll', () => this.scrollMarks())
    this.sets = make('input', { '.value': this.state.sets, autocomplete: 'off', placeholder: 'bus.clock_hz=50e6 driver.continuous=true', oninput: () => this.set('sets', this.sets.value) })
    this.said = make('div', { id: `said-${this.title}`, 'aria-live': 'polite' })
    this.command = make('pre', { tabindex: 0, role: 'region', 'aria-label': `Design ${this.title} as a command` })
    this.old = make('p', { class: 'note', hidden: true }, 'The figures below are those from before the mistake.')
    this.result = make('div', {})
    this.node = make('section', { 'aria-label': `Design ${this.title}` },
      make('h2', {}, `Design ${this.title}`),
      make('div', { class: 'controls' },
        make('label', {}, 'Begin with', setup),
        this.choice('chip', 'Chip', catalogue.parts.map(({ part, name, maker, kind }) => [part, `${maker} ${name} (${kind})`])),
        this.choice('controller', 'Controller', named(catalogue.controllers)),
        this.choice('host', 'Host', named(catalogue.hosts)),
        this.choice('mode', 'Bus', []),
        this.choice('fs', 'Tested', [['ubifs', 'UBIFS on it'], ['jffs2', 'JFFS2 on it']])),
      make('label', { class: 'field' }, 'Other changes, as KEY=VALUE with blanks between', this.sets),
      make('details', { '.open': this.state.text !== null },
        make('summary', {}, 'The setup as text'),
        make('label', { class: 'field', for: `text-${this.title}` }, 'TOML'),
        make('div', { class: 'marked' }, this.text, this.marks)),
      this.said, this.command, this.old, this.result)
    this.lists.fs.options[0].textContent = 'the bare flash'
    this.load()
  }

  async load() {
    const { setup } = this.state
    if (!texts.has(setup)) {
      const { answer } = await this.worker.ask({ do: 'text', name: setup })
      texts.set(setup, answer.done ?? '')
    }
    if (this.state.setup !== setup) return
    this.text.value = this.state.text ?? texts.get(setup)
    this.measure()
  }

  begin(setup) {
    this.setup.value = setup
    Object.assign(this.state, { setup, text: null, chip: '', controller: '', host: '', mode: '' })
    for (const name of ['chip', 'controller', 'host', 'mode']) this.lists[name].value = ''
    this.load()
  }

  set(name, value) {
    this.state[name] = value
    if (name === 'chip') this.state.mode = this.lists.mode.value = ''
    this.measure()
  }

  write() {
    this.state.text = this.text.value === texts.get(this.state.setup) ? null : this.text.value
    this.measure()
  }

  /** The changes, as `--set` takes them. */
  overrides() {
    const { chip, controller, host, mode, sets } = this.state
    const bus = /^\d[SD]?-/.test(mode) ? 'bus.mode' : 'bus.interface'
    return [chip && `chip=${chip}`, controller && `controller=${controller}`, host && `host.base=${host}`, mode && `${bus}=${mode}`, ...sets.trim().split(/\s+/)].filter(Boolean)
  }

  request() {
    return { text: this.text.value, sets: this.overrides(), fs: this.state.fs || null }
  }

  measure() {
    const setup = this.state.text === null ? this.state.setup : 'setup.toml'
    const fs = this.state.fs ? ` --fs ${this.state.fs}` : ''
    this.command.textContent = `floatgate speed ${setup}${fs}${this.overrides().map((set) => ` --set ${set}`).join('')}`
    this.changed(this)
    const started = performance.now()
    const design = this.request()
    this.newest.ask({ do: 'speed', design, advice: false }, (answer) => {
      this.latency = performance.now() - started
      this.show(answer)
      if (!answer.failed) this.newest.ask({ do: 'speed', design, advice: true }, (answer) => this.show(answer))
    })
  }

  scrollMarks() {
    this.marks.scrollTop = this.text.scrollTop
    this.marks.scrollLeft = this.text.scrollLeft
  }

  mark(place) {
    const here = place?.file === 'setup.toml' ? place : null
    this.text.setAttribute('aria-invalid', String(Boolean(here)))
    this.marks.replaceChildren()
    if (!here) return
    const text = this.text.value
    const end = Math.max(here.end, here.start + 1)
    this.marks.append(text.slice(0, here.start), make('mark', {}, text.slice(here.start, end) || ' '), `${text.slice(end)}\n`)
    this.text.closest('details').open = true
    this.scrollMarks()
  }

  show(answer) {
    this.mark(answer.failed?.place)
    this.result.classList.toggle('stale', Boolean(answer.failed))
    this.old.hidden = !answer.failed || !this.tests
    if (answer.failed) {
      const { place } = answer.failed
      const where = place ? `${place.file}, line ${place.line}: ` : ''
      this.said.replaceChildren(failure({ ...answer.failed, message: where + answer.failed.message }))
      return
    }
    this.said.replaceChildren()
    const run = answer.done
    const mode = this.lists.mode
    mode.replaceChildren(mode.options[0], ...run.modes.map((name) => make('option', { value: name }, name)))
    mode.value = this.state.mode
    this.tests = run.tests
    this.result.replaceChildren(
      make('p', {}, make('strong', {}, run.title || this.state.setup)),
      make('p', { class: 'note' }, `${run.chip}: pages of ${run.page_bytes} B, eraseblocks of ${run.eraseblock_bytes / 1024} KiB`),
      make('p', { class: 'note' }, `reads ${run.read}`), make('p', { class: 'note' }, `writes ${run.write}`),
      ...run.notes.map((note) => make('p', { class: 'note' }, note)),
      make('ul', { class: 'tests' }, ...run.tests.map((test) => this.test(test, run.advice.find((advice) => advice.test === test.name)))))
    document.dispatchEvent(new Event('measured'))
  }

  test(test, advice) {
    const figure = test.bytes === 0 ? `${time(test.us_per_call)} each` : `${number(test.exact_kib_s)} KiB/s, ${time(test.us_per_call)} each`
    const words = test.shares.map(([phase, share]) => `${phase} ${share.toFixed(1)} %`).join(', ')
    const bar = make('div', { class: 'bar', role: 'img', 'aria-label': `${test.name}: ${words}` })
    for (const [phase, share] of test.shares) {
      const part = make('span', { title: `${phase} ${share.toFixed(1)} %` })
      part.style.width = `${share}%`
      part.style.background = colours[phase]
      bar.append(part)
    }
    const interval = test.interval_min !== undefined && test.bytes > 0 ? `; 8 of 10 boards: ${number(test.interval_min)} to ${number(test.interval_max)} KiB/s` : ''
    return make('li', {}, make('div', {}, make('strong', {}, test.name), `: ${figure}`, make('span', { class: 'note' }, interval)), bar, advice ? this.advice(advice) : null)
  }

  advice({ bottleneck, share_percent, next }) {
    const meaning = catalogue.phases.find(({ name }) => name === bottleneck)?.meaning ?? bottleneck
    const text = `Bottleneck: ${meaning}, ${share_percent.toFixed(1)} %. `
    if (!next) return make('div', { class: 'note' }, `${text}No single change of bus or driver gains 1 %.`)
    const apply = () => {
      const key = next.set.split('=')[0]
      const kept = this.state.sets.trim().split(/\s+/).filter((set) => set && set.split('=')[0] !== key)
      if (key === 'bus.mode' || key === 'bus.interface') this.state.mode = this.lists.mode.value = ''
      this.sets.value = [...kept, next.set].join(' ')
      this.set('sets', this.sets.value)
    }
    return make('div', { class: 'note' }, text, 'Next: ', make('button', { type: 'button', class: 'plain', onclick: apply }, next.set), ` is ${next.factor.toFixed(2)} times as fast.`)
  }
}

let designs = []
const tools = { key: 'bus.clock_hz', values: '10e6..50e6:10e6', test: 'page read', operation: '' }
let toolWorker
let sweepNewest
let traceNewest

// The state of the page in its link: JSON, compressed, in letters that a link may have.
async function through(stream, bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer())
}

async function packed(state) {
  const bytes = await through(new CompressionStream('deflate-raw'), new TextEncoder().encode(JSON.stringify(state)))
  return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0))
  return JSON.parse(new TextDecoder().decode(await through(new DecompressionStream('deflate-raw'), bytes)))
}

/** The values of a design that are not those it begins with. */
function short(state) {
  return Object.fromEntries(Object.entries(state).filter(([, value]) => value !== '' && value !== null))
}

let saving
function remember() {
  clearTimeout(saving)
  saving = setTimeout(async () => {
    const state = { designs: designs.map((design) => short(design.state)), tools }
    history.replaceState(null, '', `#=${await packed(state)}`)
  }, 300)
}

/** The state of a link: `#=` and what {@link packed} gave, or `#` and the name of a setup, with changes: `#am62a-w35n01jw&bus.mode=1-1-1`. */
async function remembered() {
  const hash = decodeURIComponent(location.hash.slice(1))
  if (hash.startsWith('=')) {
    try {
      const { designs = [{}], tools = {} } = await unpacked(hash.slice(1))
      return { designs: designs.slice(0, 2), tools }
    } catch {
      element('status').textContent = 'The link of this page is not complete: it begins anew.'
      return { designs: [{}], tools: {} }
    }
  }
  const [name, ...sets] = hash.split('&')
  return { designs: [catalogue.setups.some((setup) => setup.name === name) ? { setup: name, sets: sets.join(' ') } : {}], tools: {} }
}

function changed(design) {
  if (!designs.includes(design)) return
  remember()
  if (design === designs[0]) runTools()
}

function add(state) {
  const design = new Design('AB'[designs.length], state, changed)
  designs.push(design)
  element('designs').append(design.node)
  element('second').hidden = designs.length > 1
}

let toolsWait
function runTools() {
  clearTimeout(toolsWait)
  // The design itself comes first.
  toolsWait = setTimeout(() => {
    sweep()
    trace()
  }, 200)
}

function sweep() {
  const { key, values } = tools
  if (!key || !values || !designs[0]?.text.value) return element('curve').replaceChildren()
  sweepNewest.ask({ do: 'sweep', design: designs[0].request(), sweep: `${key}=${values}` }, showSweep)
}

let swept = null

function showSweep(answer) {
  const out = element('curve')
  // A mistake in the design itself is shown there.
  if (answer.failed) return out.replaceChildren(answer.failed.place?.file === 'setup.toml' ? '' : failure(answer.failed))
  swept = answer
  const rows = answer.done
  const names = [...new Set(rows.flatMap((row) => row.tests.map((test) => test.name)))]
  const list = element('sweep').elements.test
  list.replaceChildren(...names.map((name) => make('option', {}, name)))
  list.value = names.includes(tools.test) ? tools.test : names[0] ?? ''
  const points = rows.flatMap((row, at) => {
    const test = row.tests.find((test) => test.name === list.value)
    return test ? [{ at, value: row.value, y: test.kib_s > 0 ? test.kib_s : test.us_per_call, isTime: !(test.kib_s > 0) }] : []
  })
  const unit = points[0]?.isTime ? 'µs each' : 'KiB/s'
  const cells = rows.map((row) => {
    const point = points.find((point) => point.value === row.value)
    return [row.value, point ? number(point.y) : make('span', { class: 'note' }, row.refused ?? '')]
  })
  out.replaceChildren(points.length > 1 ? curve(points, `${list.value}, ${unit}`) : '', table(`${list.value} with each ${tools.key}`, [tools.key, unit], cells))
}

/** Pixels that a picture is wide: those of the page, up to a width at which lines are still followed by eye. */
function paperWidth() {
  return Math.max(300, Math.min(element('main').clientWidth - 4, 1000))
}

/** The next of 1, 2 and 5 with a power of ten. */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least || 1))
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least) ?? power
}

/** A curve: values that are numbers at their places, others one beside the other. */
function curve(points, title) {
  const [width, height, left, bottom] = [paperWidth(), 260, 70, 36]
  const numeric = points.every(({ value }) => Number.isFinite(Number(value)))
  const xs = points.map(({ value, at }) => (numeric ? Number(value) : at))
  const [low, high] = [Math.min(...xs), Math.max(...xs)]
  const step = roundStep(Math.max(...points.map(({ y }) => y)) / 4)
  const top = step * Math.ceil((Math.max(...points.map(({ y }) => y)) * 1.02) / step)
  const x = (at) => left + 20 + (width - left - 60) * (high > low ? (at - low) / (high - low) : 0.5)
  const y = (value) => 24 + (height - 24 - bottom) * (1 - value / top)
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': title })
  picture.append(svg('text', { x: 4, y: 14 }, title))
  for (let value = 0; value <= top; value += step) {
    picture.append(svg('line', { x1: left, x2: width - 10, y1: y(value), y2: y(value), class: 'grid' }), svg('text', { x: left - 8, y: y(value) + 4, 'text-anchor': 'end' }, number(value)))
  }
  picture.append(svg('polyline', { class: 'curve', points: points.map((point, at) => `${x(xs[at])},${y(point.y)}`).join(' ') }))
  const every = Math.ceil((points.length * 70) / (width - left))
  points.forEach((point, at) => {
    const label = numeric ? Number(point.value).toLocaleString('en', { notation: 'compact' }) : point.value
    picture.append(svg('circle', { class: 'dot', r: 4, cx: x(xs[at]), cy: y(point.y) }, svg('title', {}, `${point.value}: ${number(point.y)}`)))
    if (at % every === 0) picture.append(svg('text', { x: x(xs[at]), y: height - 12, 'text-anchor': 'middle' }, label))
  })
  return picture
}

let traced = null
let shownRange = [0, 1]

function trace() {
  if (!tools.operation) {
    traced = null
    return element('spans').replaceChildren()
  }
  traceNewest.ask({ do: 'trace', design: designs[0].request(), operation: tools.operation }, (answer) => {
    traced = answer
    shownRange = [0, 1]
    showTrace()
  })
}

const SPANS_MAX = 3000

function showTrace() {
  const out = element('spans')
  if (!traced) return
  if (traced.failed) return out.replaceChildren(failure(traced.failed))
  const { spans, ns } = traced.done
  const end = Math.max(ns, ...spans.map((span) => span.end_ns), 1)
  const [from, to] = shownRange.map((share) => share * end)
  const lanes = [...new Set(spans.map((span) => span.resource))]
  const [width, left, lane] = [paperWidth(), 90, 30]
  const height = 30 + lanes.length * lane + 20
  const x = (at) => left + ((width - left - 10) * (Math.min(Math.max(at, from), to) - from)) / (to - from)
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `${traced.done.operation} on ${lanes.join(', ')}` })
  lanes.forEach((name, at) => picture.append(svg('text', { x: 4, y: 30 + at * lane + 18 }, name), svg('line', { x1: left, x2: width - 10, y1: 30 + (at + 1) * lane - 1, y2: 30 + (at + 1) * lane - 1, class: 'grid' })))
  const seen = spans.filter((span) => span.end_ns > from && span.start_ns < to)
  for (const span of seen.slice(0, SPANS_MAX)) {
    const at = x(span.start_ns)
    const wide = Math.max(x(span.end_ns) - at, 0.7)
    const us = (span.end_ns - span.start_ns) / 1000
    const box = svg('rect', { x: at, y: 30 + lanes.indexOf(span.resource) * lane + 3, width: wide, height: lane - 8, fill: colours[span.phase] ?? '#888' }, svg('title', {}, `${span.what}: ${time(us)} (${span.phase})`))
    picture.append(box)
  }
  for (let step = 0; step <= 4; step += 1) {
    const at = from + ((to - from) * step) / 4
    picture.append(svg('text', { x: x(at), y: 18, 'text-anchor': step === 4 ? 'end' : step === 0 ? 'start' : 'middle' }, time(at / 1000)))
  }
  const rows = seen.slice(0, 200).map((span) => [time(span.start_ns / 1000), time((span.end_ns - span.start_ns) / 1000), span.resource, span.what, span.phase])
  const more = seen.length > SPANS_MAX ? make('p', { class: 'note' }, `${SPANS_MAX} of ${seen.length} steps are drawn: zoom in to see all.`) : ''
  out.replaceChildren(
    make('p', {}, `${traced.done.operation}: ${time(ns / 1000)}`), picture, more,
    make('details', {}, make('summary', {}, `The steps as a table${seen.length > 200 ? ', the first 200' : ''}`), table('Steps', ['Start', 'Time', 'On', 'What', 'Phase'], rows, [0, 1])))
}

function zoom(how) {
  let [from, to] = shownRange
  const length = to - from
  const middle = (from + to) / 2
  if (how === 'in') [from, to] = [middle - length / 4, middle + length / 4]
  if (how === 'out') [from, to] = [middle - length, middle + length]
  if (how === 'left') [from, to] = [from - length / 4, to - length / 4]
  if (how === 'right') [from, to] = [from + length / 4, to + length / 4]
  const shift = from < 0 ? -from : to > 1 ? 1 - to : 0
  shownRange = [Math.max(0, from + shift), Math.min(1, to + shift)]
  showTrace()
}

function show({ designs: states, tools: kept }) {
  designs = []
  element('designs').replaceChildren()
  for (const name of Object.keys(tools)) if (typeof kept[name] === 'string') tools[name] = kept[name]
  element('sweep').elements.key.value = tools.key
  element('sweep').elements.values.value = tools.values
  element('trace').elements.operation.value = tools.operation
  for (const state of states) add(state)
}

async function begin() {
  toolWorker = makeWorker('designs')
  sweepNewest = new Newest(toolWorker)
  traceNewest = new Newest(toolWorker)
  const { answer } = await toolWorker.ask({ do: 'catalogue' })
  if (answer.failed) return element('status').replaceChildren(failure(answer.failed))
  catalogue = answer.done
  colours = Object.fromEntries(catalogue.phases.map(({ name, colour }) => [name, colour]))
  element('legend').append(...catalogue.phases.map(({ name, meaning, colour }) => {
    const swatch = make('span', { class: 'swatch' })
    swatch.style.background = colour
    return make('li', { title: meaning }, swatch, name)
  }))
  element('keys').append(...SWEPT.map((value) => make('option', { value })))
  element('trace').elements.operation.append(...catalogue.operations.map((name) => make('option', {}, name)))
  element('status').textContent = ''
  show(await remembered())
}

element('second').addEventListener('click', () => add({ ...designs[0].state }))
element('copy').addEventListener('click', async () => {
  await navigator.clipboard.writeText(location.href)
  element('status').textContent = 'The link is copied.'
})
element('sweep').addEventListener('submit', (event) => event.preventDefault())
element('sweep').addEventListener('input', ({ target }) => {
  tools[target.name] = target.value
  remember()
  runTools()
})
element('trace').addEventListener('submit', (event) => event.preventDefault())
element('trace').addEventListener('input', ({ target }) => {
  tools[target.name] = target.value
  remember()
  trace()
})
element('trace').addEventListener('click', ({ target }) => {
  if (target.dataset.zoom) zoom(target.dataset.zoom)
})
let resizing
window.addEventListener('resize', () => {
  clearTimeout(resizing)
  resizing = setTimeout(() => {
    if (swept) showSweep(swept)
    showTrace()
  }, 100)
})
window.addEventListener('hashchange', async () => show(await remembered()))
// For the test of the page.
window.floatgate = { designs: () => designs }
begin()
