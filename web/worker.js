// Runs the WebAssembly module beside the page. Files are read in slices when the module asks for bytes, so that a dump never is in memory as
// a whole, and nothing is sent anywhere.
'use strict'

// Bytes of a slice of a chosen file that are read together, and slices that are kept.
const SLICE = 1 << 20
const SLICES = 12
// Bytes of a file for the page that are collected before they become a Blob, which the browser may keep on its disk.
const COLLECTED = 8 << 20
// Milliseconds between two messages of progress.
const PROGRESS = 100

const reader = new FileReaderSync()
const decoder = new TextDecoder()
const encoder = new TextEncoder()

// Chosen files and chunks that the module handed out, by number; 0 stands for none.
let blobs, slices, instance, answer, parts, collected, collectedBytes, readBytes, lastProgress

function memory(at, len) {
  return new Uint8Array(instance.exports.memory.buffer, at >>> 0, len >>> 0)
}

// A slice of a blob, from those kept or read anew.
function slice(number, index) {
  const key = `${number} ${index}`
  let bytes = slices.get(key)
  if (bytes) slices.delete(key)
  else {
    const blob = blobs[number]
    bytes = new Uint8Array(reader.readAsArrayBuffer(blob.slice(index * SLICE, (index + 1) * SLICE)))
    readBytes += bytes.length
    if (slices.size >= SLICES) slices.delete(slices.keys().next().value)
  }
  slices.set(key, bytes)
  return bytes
}

function tell(done) {
  const now = Date.now()
  if (now - lastProgress < PROGRESS) return
  lastProgress = now
  postMessage({ progress: done })
}

function collect() {
  if (collectedBytes > 0) parts.push(new Blob(collected))
  collected = []
  collectedBytes = 0
}

const page = {
  blob_read(number, offset, to, len) {
    try {
      let done = 0
      while (done < len) {
        const at = offset + done
        const bytes = slice(number, Math.floor(at / SLICE))
        const piece = bytes.subarray(at % SLICE, at % SLICE + len - done)
        if (piece.length === 0) return 1
        memory(to + done, piece.length).set(piece)
        done += piece.length
      }
      tell(readBytes)
      return 0
    } catch {
      return 1
    }
  },
  blob_keep(from, len) {
    try {
      return blobs.push(new Blob([memory(from, len)])) - 1
    } catch {
      return 0
    }
  },
  blob_release(number) {
    delete blobs[number]
    for (const key of slices.keys()) if (key.startsWith(`${number} `)) slices.delete(key)
  },
  file_bytes(from, len) {
    collected.push(memory(from, len).slice())
    collectedBytes += len
    if (collectedBytes >= COLLECTED) collect()
  },
  file_blob(number, offset, len) {
    collect()
    parts.push(blobs[number].slice(offset, offset + len))
  },
  progress(bytes) {
    tell(bytes)
  },
  reply(from, len) {
    answer = JSON.parse(decoder.decode(memory(from, len)))
  },
}

// The compiled module, which is the first message.
let module

async function start() {
  blobs = [null]
  slices = new Map()
  instance = await WebAssembly.instantiate(module, { page })
}

function ask(request) {
  const text = encoder.encode(JSON.stringify(request))
  memory(instance.exports.input(text.length), text.length).set(text)
  answer = null
  instance.exports.call()
  return answer
}

// The file that was opened last, to open it again after a failure of the module.
let opened = null

function open(path, file) {
  opened = { path, file }
  return ask({ do: 'open', path, blob: blobs.push(file) - 1, len: file.size })
}

async function handle({ request, file }) {
  if (!instance) await start()
  readBytes = lastProgress = collectedBytes = 0
  parts = []
  collected = []
  try {
    if (request.do === 'open') return { answer: open(request.path, file) }
    const result = ask(request)
    collect()
    return { answer: result, blob: parts.length > 0 ? new Blob(parts) : null, read: readBytes }
  } catch (error) {
    await start()
    if (opened) open(opened.path, opened.file)
    const help = 'this is a fault of floatgate, or the browser has too little memory: please report it with the file'
    return { answer: { failed: { message: `the work was stopped: ${error}`, help, place: null } } }
  }
}

// One request after the other.
let queue = Promise.resolve()
onmessage = ({ data }) => {
  if (data.module) {
    module = data.module
    return
  }
  queue = queue.then(async () => {
    let result
    try {
      result = await handle(data)
    } catch (error) {
      result = { answer: { failed: { message: String(error.message ?? error), help: null, place: null } } }
    }
    const memoryBytes = instance ? instance.exports.memory.buffer.byteLength : 0
    postMessage({ id: data.id, memory: memoryBytes, ...result })
  })
}
