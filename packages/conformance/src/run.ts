/** Runs one command line to its exit code. */
import { existsSync, readFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { constants } from 'node:os'
import { resolve } from 'node:path'
import { Command, CommanderError } from 'commander'
import type { Fetch } from './session.js'
import { CASES, openSession, type Result, runCases, UnreadyError } from './suite.js'

const PASSED = 0
const FAILED = 1
const USAGE = 2
const UNREADY = 3

const LOCAL_HOST = /^(localhost|127(\.\d+){3}|\[::1\])$/

const HELP = `
It makes keys and API keys in the tenant of the API key, all named "conformance ...".
At the end it destroys those keys and revokes those API keys. Their records stay, and
so do the entries of the audit log. Use a tenant of its own, which nobody else calls
meanwhile, and an API key with every permission. The tenant's envelope_only decides
which cases of server mode run.

Exit codes: 0 all cases passed, 1 some failed, or something could not be removed, 2 usage
error, 3 the server does not answer, or the API key or the tenant may not do what the
cases need.
Ended by a signal: 128 and its number.`

/** What a command works with: the streams and the end of a process, or of a test. */
export interface Io {
  folder: string
  print(text: string): void
  tell(line: string): void
  signal: AbortSignal
  fetch?: Fetch
}

type Options = { apiKeyFile?: string; serverMode: boolean; json?: string; only?: string; allowInsecure: boolean }

class UsageError extends Error {}

/** Runs a command line, given without the program's name. Prints every error, and returns the exit code. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  let exitCode = PASSED
  const program = new Command('eaas-conformance')
    .description('Tests a server of the EaaS API against its contract.')
    .argument('<url>', 'URL of the server, as in https://eaas.example.org')
    .usage('<url> --api-key-file <file> [options]')
    .option('--api-key-file <file>', 'a file with the API key, and nothing else')
    .option('--server-mode', 'end with exit code 3 unless server mode is open to the tenant', false)
    .option('--json <file>', 'also write the report as JSON: a new file, since standard output has the results')
    .option('--only <pattern>', 'run the cases whose name matches this regular expression')
    .option('--allow-insecure', 'allow http to another machine, which shows the API key to the network', false)
    .version(readVersion(), '--version', 'print the version')
    .addHelpText('after', HELP)
    .configureHelp({ optionDescription: ({ description }) => description })
    .configureOutput({ writeOut: (text) => io.print(text), writeErr: () => undefined, getOutHelpWidth: () => 90 })
    .exitOverride()
    .action(async (url: string, options: Options) => {
      exitCode = await test(url, options, io)
    })
  try {
    if (argv.some((text) => /^--api-?key(=|$)/i.test(text)))
      throw new UsageError(
        'an API key is never given on the command line, which other users can read: use --api-key-file',
      )
    const repeated = program.options.find(({ long }) => argv.filter((one) => one.split('=')[0] === long).length > 1)
    if (repeated) throw new UsageError(`${repeated.long} may be given once only`) // which of two values counts would be a guess
    await program.parseAsync(argv, { from: 'user' })
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return PASSED
    if (error instanceof CommanderError || error instanceof UsageError) {
      io.tell(`eaas-conformance: ${error.message.replace(/^error: /, '')}`)
      io.tell('eaas-conformance --help lists the options.')
      return USAGE
    }
    const { code, message, stack } = error as NodeJS.ErrnoException
    const isExpected = error instanceof UnreadyError || code !== undefined // system errors, such as a full disk
    io.tell(`eaas-conformance: ${isExpected ? message : (stack ?? error)}`)
    return error instanceof UnreadyError ? UNREADY : FAILED
  }
}

async function test(text: string, options: Options, io: Io): Promise<number> {
  if (options.apiKeyFile === undefined) throw new UsageError("required option '--api-key-file <file>' not specified")
  const url = readUrl(text, options.allowInsecure)
  const only = readPattern(options.only)
  const cases = CASES.filter(([name]) => only.test(name))
  if (cases.length === 0) throw new UsageError('--only: no case has such a name')
  const json = readNewFile(io.folder, options.json)
  const apiKey = await readApiKey(resolve(io.folder, readFileName('--api-key-file', options.apiKeyFile)))
  const started_at = new Date().toISOString()
  const { fetch, signal } = io
  const session = await openSession({ baseUrl: url, apiKey, fetch, signal })
  if (options.serverMode && !session.isOpen)
    throw new UnreadyError('server mode is closed to the tenant, and --server-mode needs it open')
  io.print(`TAP version 14\n1..${cases.length}\n`)
  let at = 0
  const onResult = (result: Result) => {
    at += 1
    io.print(tapResult(result, at))
  }
  const results = await runCases(session, { cases, signal, onResult })
  const left = await session.cleanUp()
  for (const one of left) io.tell(`eaas-conformance: could not be removed: ${one}`)
  const counts = countOutcomes(results)
  if (json !== undefined) {
    const report = { url, version: readVersion(), started_at, ...counts, cases: results }
    await writeFile(json, `${JSON.stringify(report, undefined, 2)}\n`, { flag: 'wx', mode: 0o600 })
  }
  if (signal.aborted) {
    io.print('Bail out! ended by a signal\n')
    return 128 + constants.signals[signal.reason as NodeJS.Signals]
  }
  if (left.length > 0) io.print(`# ${left.length} could not be removed\n`)
  const { passed, failed, skipped } = counts
  io.print(`# ${passed} passed, ${failed} failed, ${skipped} skipped\n`)
  return failed > 0 || left.length > 0 ? FAILED : PASSED
}

/** Reads the path of the report before any case runs. @throws UsageError if the file exists, or it is standard output */
function readNewFile(folder: string, given: string | undefined): string | undefined {
  if (given === undefined) return undefined
  const path = resolve(folder, readFileName('--json', given))
  if (existsSync(path)) throw new UsageError(`${path}: it exists already, and is not overwritten`)
  return path
}

function readFileName(option: string, given: string): string {
  if (given === '' || given === '-') throw new UsageError(`${option}: name a file: a stream cannot be used for it`)
  return given
}

/** Reads the URL. Its path precedes the path of every call. @throws UsageError, without the URL's password */
function readUrl(text: string, allowInsecure: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new UsageError('the URL must begin with https:// or http://')
  if (url.username || url.password || url.search || url.hash)
    throw new UsageError('the URL must have no user, password, query or fragment')
  if (url.protocol === 'http:' && !allowInsecure && !LOCAL_HOST.test(url.hostname))
    throw new UsageError('http to another machine shows the API key to the network: use https, or --allow-insecure')
  return url.href.replace(/\/+$/, '')
}

function readPattern(text = ''): RegExp {
  try {
    return new RegExp(text, 'i')
  } catch {
    throw new UsageError('--only: that is no regular expression')
  }
}

async function readApiKey(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`--api-key-file: ${error.message}`)
  })
  if (!/^\s*[\x21-\x7e]+\s*$/.test(text)) throw new UsageError('--api-key-file: the file must hold one API key alone')
  return text.trim()
}

function readVersion(): string {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

/** A result in TAP version 14; `at` counts from 1. */
function tapResult({ name, outcome, message }: Result, at: number): string {
  const point = `${outcome === 'failed' ? 'not ok' : 'ok'} ${at} - ${name.replaceAll(/[\\#]/g, '\\$&')}`
  if (outcome === 'skipped') return `${point} # SKIP ${message}\n`
  // JSON is YAML too.
  return message === undefined ? `${point}\n` : `${point}\n  ---\n  message: ${JSON.stringify(message)}\n  ...\n`
}

function countOutcomes(results: readonly Result[]): { passed: number; failed: number; skipped: number } {
  const count = (outcome: Result['outcome']) => results.filter((one) => one.outcome === outcome).length
  return { passed: count('passed'), failed: count('failed'), skipped: count('skipped') }
}
