// Runs the WebAssembly module beside the page. Bytes of files are read when the module asks for them, so that a large dump never is in memory as
// a whole, and nothing is sent anywhere.
'use strict'

// Bytes of a file up to which it is read into memory. A larger one is copied into the private files of the page's origin, from which bytes are
// read straight into the module's memory; where the browser has no room for that, it is read in slices.
const SMALL = 32 << 20
const SLICE = 4 << 20
const SLICES = 4
const PREFIX = 'floatgate-'
// Bytes of a file for the page that are collected before they become a Blob, which the browser may keep on its disk.
const COLLECTED = 8 << 20
// Milliseconds between two messages of progress.
const PROGRESS = 100

const reader = new FileReaderSync()
const decoder = new TextDecoder()
const encoder = new TextEncoder()

// Chosen files and chunks that the module handed out, by number; 0 stands for none.
let blobs, slices, scratch, scratchEnd, spare, instance, answer, parts, collected, collectedBytes, readBytes, lastProgress

function memory(at, len) {
  return new Uint8Array(instance.exports.memory.buffer, at >>> 0, len >>> 0)
}

// A slice of a file, from those kept or read anew.
function slice(number, index) {
  const key = `${number} ${index}`
  let bytes = slices.get(key)
  if (bytes) slices.delete(key)
  else {
    bytes = new Uint8Array(reader.readAsArrayBuffer(blobs[number].file.slice(index * SLICE, (index + 1) * SLICE)))
    if (slices.size >= SLICES) slices.delete(slices.keys().next().value)
  }
  slices.set(key, bytes)
  return bytes
}

// Reads bytes of a blob to `to`; their number.
function readAt(number, offset, to) {
  const { bytes, handle, start } = blobs[number]
  if (handle) return handle.read(to, { at: start + offset })
  if (bytes) {
    const piece = bytes.subarray(offset, offset + to.length)
    to.set(piece)
    return piece.length
  }
  const piece = slice(number, Math.floor(offset / SLICE)).subarray(offset % SLICE, (offset % SLICE) + to.length)
  to.set(piece)
  return piece.length
}

// A private file of the page, opened for this worker alone; null where the browser has none.
async function privateFile() {
  try {
    const root = await navigator.storage.getDirectory()
    const file = await root.getFileHandle(PREFIX + crypto.randomUUID(), { create: true })
    return await file.createSyncAccessHandle()
  } catch {
    return null
  }
}

// Removes what pages that were closed have left; files of others that are open stay.
async function removeOld() {
  try {
    const root = await navigator.storage.getDirectory()
    for await (const name of root.keys()) if (name.startsWith(PREFIX)) await root.removeEntry(name).catch(() => {})
  } catch {
    // There are no private files.
  }
}

// A chosen file as a blob.
async function blobOf(file) {
  if (file.size <= SMALL) return { file, bytes: new Uint8Array(await file.arrayBuffer()) }
  const handle = await privateFile()
  if (!handle) return { file }
  try {
    let at = 0
    for await (const piece of file.stream()) {
      at += handle.write(piece, { at })
      tell(at)
    }
    return { file, handle, start: 0 }
  } catch {
    handle.close()
    return { file }
  }
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
        const got = readAt(number, offset + done, memory(to + done, len - done))
        if (got === 0) return 1
        done += got
      }
      readBytes += len
      tell(readBytes)
      return 0
    } catch {
      return 1
    }
  },
  blob_keep(from, len) {
    try {
      const blob = spare.pop() ?? { handle: scratch, start: scratchEnd, len }
      if (blob.start === scratchEnd) scratchEnd += len
      if (!scratch) return blobs.push({ bytes: memory(from, len).slice() }) - 1
      if (scratch.write(memory(from, len), { at: blob.start }) !== len) return 0
      return blobs.push(blob) - 1
    } catch {
      return 0
    }
  },
  blob_release(number) {
    const blob = blobs[number]
    delete blobs[number]
    // All chunks have the same size: its place is taken again.
    if (blob && !blob.file && blob.handle) spare.push(blob)
  },
  file_bytes(from, len) {
    collected.push(memory(from, len).slice())
    collectedBytes += len
    if (collectedBytes >= COLLECTED) collect()
  },
  file_blob(number, offset, len) {
    collect()
    const { file } = blobs[number]
    if (file) return parts.push(file.slice(offset, offset + len))
    const bytes = new Uint8Array(len)
    readAt(number, offset, bytes)
    parts.push(new Blob([bytes]))
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

function closeFiles() {
  for (const blob of blobs ?? []) if (blob?.file) blob.handle?.close()
}

async function start() {
  closeFiles()
  blobs = [null]
  spare = []
  slices = new Map()
  scratchEnd = 0
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

async function open(path, file) {
  closeFiles()
  opened = { path, file }
  if (scratch === undefined) {
    await removeOld()
    // Chunks of files that the module writes.
    scratch = await privateFile()
  }
  const blob = await blobOf(file)
  return ask({ do: 'open', path, blob: blobs.push(blob) - 1, len: file.size })
}

async function handle({ request, file }) {
  if (!instance) await start()
  readBytes = lastProgress = collectedBytes = 0
  parts = []
  collected = []
  try {
    if (request.do === 'open') return { answer: await open(request.path, file) }
    const result = ask(request)
    collect()
    return { answer: result, blob: parts.length > 0 ? new Blob(parts) : null, read: readBytes }
  } catch (error) {
    await start()
    if (opened) await open(opened.path, opened.file)
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
