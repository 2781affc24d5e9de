// The files that the commands of all programs read and write: which path is a stream, and what a file that exists means.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateIdentity, identityToRecipient } from 'age-encryption'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { COMMANDS as AUDIT_COMMANDS } from '../../packages/audit/src/command/commands.js'
import { createProgram } from '../../packages/audit/src/command/program.js'
import type { Io } from '../../packages/cli/src/io.js'
import { createProgram as createCliProgram } from '../../packages/cli/src/run.js'
import { runCommand as runCli } from '../../packages/cli/src/test-support/command.js'
import { run as runConformance } from '../../packages/conformance/src/run.js'
import { COMMANDS } from '../../packages/server/src/operate/cli/commands.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { runAuditCommand, runCommand } from '../support/service/command-host.js'
import type { Ended } from '../support/service/eaas-process.js'

const TIMEOUT_MS = 120_000
/** What a command takes for a path, by the placeholder in its help. */
const PATH = /^[<[](file|dir|path|folder)(\.\.\.)?[>\]]$/

type Command = ReturnType<typeof createProgram>

interface Taken {
  name: string
  /** what reads it: a new file, a file that is read, or one that is kept and so has a name */
  by: string | undefined
}

/** Lists each path that a command takes, in a program and its subcommands. */
function listPaths(program: Command): Taken[] {
  const listIn = (command: Command, before: string): Taken[] => {
    const name = `${before} ${command.name()}`.trim()
    const options = command.options.map(({ flags, parseArg }) => ({ flags, parseArg }))
    const given = command.registeredArguments.map((argument) => ({
      flags: argument.required ? `<${argument.name()}>` : `[${argument.name()}]`,
      parseArg: (argument as unknown as { parseArg?: { name: string } }).parseArg,
    }))
    return [
      ...[...options, ...given]
        .filter(({ flags }) => PATH.test(flags.split(' ').at(-1) ?? ''))
        .map(({ flags, parseArg }) => ({ name: `${name} ${flags}`, by: parseArg?.name })),
      ...command.commands.flatMap((below) => listIn(below, name)),
    ]
  }
  return listIn(program, '')
}

function programOf(name: string, commands: readonly ((program: Command) => void)[]): Command {
  const program = createProgram(name, { version: '1' })
  for (const add of commands) add(program)
  return program
}

const PATHS = [...listPaths(programOf('eaas', COMMANDS)), ...listPaths(programOf('eaas-audit', AUDIT_COMMANDS))]
const WRITTEN = PATHS.filter(({ by }) => by === 'readNewFile').map(({ name }) => name)

describe('each path that a command takes', () => {
  it('is a new file, a file that is read, or has a name: no command leaves open what - means', () => {
    const parsers = ['readNewFile', 'readInputFile', 'readKeptPath', 'readWholePath', 'readRepeated', 'readKeyPath']
    expect(PATHS.length).toBeGreaterThan(25)
    expect(PATHS.filter(({ by }) => !parsers.includes(by ?? ''))).toEqual([])
    const ofCli = listPaths(createCliProgram({} as Io, [])).filter(({ by }) => by !== 'readKeptPath')
    const streams = ['[file]', '--kit <file>', '-o, --out <file>'] // which openInput and openOutput read
    expect(ofCli.filter(({ name }) => !streams.some((one) => name.endsWith(one)))).toEqual([])
  })
})

describe('a command that writes a file', { timeout: TIMEOUT_MS }, () => {
  let folder: string
  let there: string
  let run: (program: string, args: string[]) => Promise<Ended>
  /** the command line of each, without the path, which is the last word; and the first bytes of what it writes */
  let lines: Record<string, { args: string[]; begins: string | undefined }>

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'eaas-paths-'))
    there = join(folder, 'there')
    const { database, tenant_id } = await databaseWithTenant()
    const recipient = await identityToRecipient(await generateIdentity())
    run = (program, args) => (program === 'eaas' ? runCommand(args, { database }) : runAuditCommand(args))
    const of = ['--tenant', tenant_id]
    await run('eaas', ['key', 'create', ...of, '--name', 'users'])
    const file = join(folder, 'log.ndjson')
    await run('eaas', ['audit', 'export', ...of, '--out', file])
    const encrypted = [...of, '--recipient', recipient]
    const AGE = '-----BEGIN AGE'
    lines = {
      'eaas root-key generate --out <path>': {
        args: ['root-key', 'generate', '--recipient', recipient, '--out'],
        begins: AGE,
      },
      'eaas key export --out <file>': { args: ['key', 'export', 'users', ...encrypted, '--out'], begins: AGE },
      'eaas recovery-kit --out <file>': { args: ['recovery-kit', ...encrypted, '--out'], begins: AGE },
      'eaas backup <file>': { args: ['backup', '--plain'], begins: '\u001f' },
      'eaas audit export --out <file>': { args: ['audit', 'export', ...of, '--out'], begins: '{"format":' },
      'eaas-audit report --html <file>': { args: ['report', file, '--html'], begins: '<!doctype html>' },
      'eaas-audit report --json <file>': { args: ['report', file, '--json'], begins: '{"evidence"' },
      'eaas-audit prove --out <file>': { args: ['prove', file, '1', '--out'], begins: '{"format":' },
    }
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it('is in the table below', () => {
    expect(Object.keys(lines).toSorted()).toEqual(WRITTEN.toSorted())
  })

  it.each(WRITTEN)('leaves a file that exists as it is, and says so: %s', async (name) => {
    await writeFile(there, 'mine')
    const { args } = lines[name] ?? expect.unreachable()
    const { code, stdout, stderr } = await run(name.split(' ')[0] ?? '', [...args, there])
    expect([code === 0, stdout, stderr]).toEqual([
      false,
      '',
      expect.stringMatching(`there: it exists already, and is not overwritten\n$`),
    ])
    expect(await readFile(there, 'utf8')).toBe('mine')
  })

  it.each(WRITTEN)('writes the same to standard output, and nothing else there: %s', async (name) => {
    const { args, begins = '' } = lines[name] ?? expect.unreachable()
    for (const path of ['-', '/dev/stdout']) {
      const { code, stdout, stderr } = await run(name.split(' ')[0] ?? '', [...args, path])
      expect([stdout.slice(0, begins.length).toLowerCase(), stdout.length > 200]).toEqual([begins.toLowerCase(), true])
      if (begins.length > 1) expect(stdout).toMatch(/(^-----END AGE ENCRYPTED FILE-----|<\/html>|^\{.*\})\n$/m)
      expect(stderr).not.toContain('not overwritten')
      expect([0, 6]).toContain(code) // 6: the key that signed was not given
    }
  })

  it.each(WRITTEN)('refuses an empty path: %s', async (name) => {
    const { args } = lines[name] ?? expect.unreachable()
    expect(await run(name.split(' ')[0] ?? '', [...args, ''])).toMatchObject({ code: 2, stdout: '' })
  })

  it('prints no result beside data, a root key in plain never, and one result only', async () => {
    for (const [program, args, message] of [
      ['eaas', ['backup', '-', '--plain', '--json'], "'--json' needs a file"],
      ['eaas', ['root-key', 'generate', '--out', '-'], 'only whole and encrypted'],
      ['eaas', ['root-key', 'generate', '--out', '-', '--shares', '3', '--threshold', '2'], 'only whole and encrypted'],
      ['eaas-audit', ['report', 'x', '--html', '-', '--json', '-'], 'gets one result'],
      ['eaas-audit', ['report', '-', '--html', 'x'], "give '--from' and '--to'"],
      ['eaas-audit', ['report', 'x', '--csv', '-'], 'a standard stream cannot be used'],
      ['eaas-audit', ['follow', '--api-key-file', '-'], 'a standard stream cannot be used'],
    ] as const) {
      const { code, stdout, stderr } = await run(program, [...args])
      expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining(message)])
    }
  })

  it('of the other programs keeps to the same', async () => {
    await writeFile(there, 'mine')
    const told: string[] = []
    const io = {
      folder,
      print: () => undefined,
      tell: (line: string) => void told.push(line),
      signal: new AbortController().signal,
    }
    const conformance = (...args: string[]) => runConformance(['http://127.0.0.1:1', ...args], io)
    expect(await conformance('--api-key-file', there, '--json', there)).toBe(2)
    expect(await conformance('--api-key-file', there, '--json', '-')).toBe(2)
    expect(await conformance('--api-key-file', '-')).toBe(2)
    expect(told.join('\n')).toMatch(/not overwritten.*stream cannot.*stream cannot/s)
    for (const args of [
      ['encrypt', there, '--key', 'k', '--api-key-file', '-'],
      ['encrypt', there, '--key', 'k', '--secret-file', '-'],
    ])
      expect(await runCli(args, { env: {}, folder })).toMatchObject({
        code: 2,
        err: expect.stringContaining('stream cannot'),
      })
    expect(await readFile(there, 'utf8')).toBe('mine')
  })
})
