// The processes of a server with EAAS_WORKERS, and who of them holds a connection; from /proc, so on Linux only.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'

/** The pid of each worker of a primary process, by its number. */
export function workersOf(primary: number): Map<number, number> {
  const workers = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const stat = read(`/proc/${name}/stat`)
    const [, ppid] = /^ \w (\d+) /.exec(stat.slice(stat.lastIndexOf(')') + 1)) ?? []
    if (Number(ppid) !== primary) continue
    const args = read(`/proc/${name}/cmdline`).split('\0')
    const number = Number(args[args.indexOf('worker') + 1])
    if (args.includes('worker')) workers.set(number, Number(name))
  }
  return workers
}

export function isAlive(pid: number): boolean {
  const stat = read(`/proc/${pid}/stat`)
  return stat !== '' && !/^ Z/.test(stat.slice(stat.lastIndexOf(')') + 1))
}

/** The number of the worker that holds the other end of a client's connection; undefined if none does. */
export function holderOf(client: Socket, primary: number): number | undefined {
  // Both ports: another connection from the same port may lead elsewhere.
  const [from, to] = [client.localPort, client.remotePort].map((port = 0) => hexOf(port))
  const row = new RegExp(`^ *\\d+: \\w+:${to} \\w+:${from} .*$`, 'm').exec(read('/proc/net/tcp'))?.[0]
  const inode = row?.trim().split(/\s+/)[9]
  for (const [number, pid] of workersOf(primary)) {
    if (linksOf(`/proc/${pid}/fd`).includes(`socket:[${inode}]`)) return number
  }
}

/** A port as /proc/net/tcp writes it. */
function hexOf(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, '0')
}

function linksOf(folder: string): string[] {
  return readdirSync(folder).map((name) => {
    try {
      return readlinkSync(`${folder}/${name}`)
    } catch {
      return '' // closed meanwhile
    }
  })
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return '' // the process has ended
  }
}

export interface RawAnswer {
  status: number
  body: string
}

export interface RawClient {
  socket: Socket
  write(text: string): void
  /** Waits for the next answer, which must have a content-length. @throws if the connection ends before it is complete */
  answer(): Promise<RawAnswer>
  /** what has arrived and is not read yet */
  rest(): string
  ended: Promise<void>
}

/** Opens a connection that sends exactly what it is given. */
export async function openRaw(url: string): Promise<RawClient> {
  const { port, hostname } = new URL(url)
  const socket = connect({ port: Number(port), host: hostname, noDelay: true })
  let rest = ''
  let error = 'the connection ended'
  socket.setEncoding('latin1')
  socket.on('error', (reason) => {
    error = reason.message
  })
  socket.on('data', (text: string) => {
    rest += text
    socket.emit('more')
  })
  const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.once('close', () => socket.emit('more'))
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  const takeAnswer = (): RawAnswer | undefined => {
    const end = rest.indexOf('\r\n\r\n')
    const head = rest.slice(0, end)
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1])
    if (end === -1 || rest.length < end + 4 + length) return undefined
    const body = rest.slice(end + 4, end + 4 + length)
    rest = rest.slice(end + 4 + length)
    return { status: Number(head.slice(9, 12)), body }
  }
  return {
    socket,
    write: (text) => void socket.write(text, 'latin1'),
    rest: () => rest,
    ended,
    async answer() {
      for (;;) {
        const answer = takeAnswer()
        if (answer) return answer
        if (socket.destroyed) throw new Error(`${error}, after ${JSON.stringify(rest.slice(0, 200))}`)
        await new Promise((resolve) => socket.once('more', resolve))
      }
    },
  }
}
