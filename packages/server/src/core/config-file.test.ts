import {
  chmodSync,
  chownSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from './config.js'
import { configSchema, findForeign } from './config-file.js'
import { nameInFile, VARIABLES } from './settings.js'

let folder: string
let file: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'eaas-config-'))
  file = join(folder, 'config.json')
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Reads the configuration of this file and these variables. */
function read(settings: unknown, variables: Record<string, string> = {}) {
  writeFileSync(file, typeof settings === 'string' ? settings : JSON.stringify(settings))
  return readConfig({ EAAS_CONFIG: file, ...variables })
}

describe('the file of settings', () => {
  it('says the same as the variables that it stands for', () => {
    const settings = {
      $schema: './config.schema.json',
      port: 9000,
      log_level: 'warn',
      trust_proxy: ['10.0.0.0/8', '::1'],
      root_key_command: ['pass', 'show', 'root key'],
      max_clock_skew_seconds: 0,
      cors_origins: [],
    }
    const variables = {
      EAAS_PORT: '9000',
      EAAS_LOG_LEVEL: 'warn',
      EAAS_TRUST_PROXY: '10.0.0.0/8,::1',
      EAAS_ROOT_KEY_COMMAND: '["pass","show","root key"]',
      EAAS_MAX_CLOCK_SKEW_SECONDS: '0',
    }
    expect(read(settings)).toEqual({ ...readConfig(variables), configFile: file })
  })

  it('has each setting but the secrets, and itself', () => {
    const { properties } = configSchema() as { properties: Record<string, object> }
    const left = ['EAAS_CONFIG', 'EAAS_DATABASE_URL', 'EAAS_ROOT_KEY']
    const names = Object.keys(VARIABLES).filter((name) => !left.includes(name))
    expect(Object.keys(properties).sort()).toEqual(['$schema', ...names.map(nameInFile)].sort())
    expect(properties.port).toEqual({ type: 'integer', minimum: 0, maximum: 65_535, description: VARIABLES.EAAS_PORT })
  })

  it('has the schema that the package holds', async () => {
    await expect(`${JSON.stringify(configSchema(), undefined, 2)}\n`).toMatchFileSnapshot('../../config.schema.json')
  })

  it.each([
    [{ port: 9000 }, { EAAS_PORT: '9001' }, { port: 9001 }],
    [{ port: 9000 }, { EAAS_PORT: '' }, { port: 9000 }],
    [
      { root_key_file: '/file' },
      { EAAS_ROOT_KEY_COMMAND: 'pass' },
      { rootKey: expect.objectContaining({ kind: 'command' }) },
    ],
    [{ database_url_file: '/nowhere' }, { EAAS_DATABASE_URL: 'postgres://h/d' }, { databaseUrl: 'postgres://h/d' }],
    [{ socket: '/s', socket_mode: '600' }, { EAAS_PORT: '9000' }, { socket: undefined, port: 9000 }],
    [{ host: '::1', port: 9000 }, { EAAS_SOCKET: '/s' }, { socket: { path: '/s', mode: 0o660 } }],
  ])('gives way to variables: %j and %j', (settings, variables, expected) => {
    expect(read(settings, variables as Record<string, string>)).toMatchObject(expected)
  })

  it('does not stand in for a variable that must not be empty, and is', () => {
    expect(() => read({ data_dir: '/data' }, { EAAS_DATA_DIR: '' })).toThrow(/^EAAS_DATA_DIR is set, but empty/)
  })

  it.each([
    ['no JSON', '{"port": 1', /config\.json \(EAAS_CONFIG\) is not JSON$/],
    ['an array', [], /must be a JSON object$/],
    ['an unknown setting', { prot: 1 }, /has no setting prot: see eaas config schema/],
    ['a variable', { EAAS_PORT: 1 }, /has no setting EAAS_PORT/],
    [
      'the root key',
      { root_key: 'hunter2' },
      /holds root_key, which is a secret: name a file with it by root_key_file/,
    ],
    ['the URL of the database', { database_url: 'postgres://u:hunter2@h/d' }, /holds database_url, which is a secret/],
    ['a number as text', { port: '1' }, /^port in .* must be a whole number from 0 to 65535/],
    ['a number that is too large', { port: 65_536 }, /^port in .* must be a whole number from 0 to 65535/],
    ['a fraction', { port: 1.5 }, /^port in .* must be a whole number/],
    ['another level', { log_level: 'loud' }, /^log_level in .* must be one of .*info/],
    ['a list as text', { trust_proxy: '10.0.0.0/8' }, /^trust_proxy in .* must be a list/],
    [
      'a comma in an item',
      { trust_proxy: ['10.0.0.1,10.0.0.2'] },
      /^trust_proxy, item 0, in .* must be a list of texts without commas/,
    ],
    ['null', { host: null }, /^host in .* must be a text/],
    ['text without a character', { host: '' }, /^host in .* must be a text that is not empty/],
    [
      'what only the reader of the value refuses',
      { trust_proxy: ['1'] },
      /^EAAS_TRUST_PROXY must .*\(trust_proxy in .*config\.json\)$/,
    ],
    ['settings that exclude each other', { root_key_file: 'a', root_key_exec: 'b' }, /are both set.*in .*config\.json/],
    ['a prototype', '{"__proto__": {"port": 1}}', /has no setting __proto__/],
  ])('is refused with %s, and shows no value', (_, settings, message) => {
    expect(() => read(settings)).toThrow(
      expect.objectContaining({ name: 'ConfigError', message: expect.stringMatching(message) }),
    )
    expect(() => read(settings)).toThrow(expect.objectContaining({ message: expect.not.stringContaining('hunter2') }))
  })

  it('is refused where it is not there, or where others can write it', () => {
    expect(() => readConfig({ EAAS_CONFIG: `${file}.none` })).toThrow(
      /^EAAS_CONFIG names a file that cannot be read \(ENOENT\)/,
    )
    writeFileSync(file, '{}')
    for (const mode of [0o666, 0o664, 0o646, 0o1666]) {
      chmodSync(file, mode)
      expect(() => readConfig({ EAAS_CONFIG: file })).toThrow(/^other users can write .*config\.json: chmod go-w/)
    }
    chmodSync(file, 0o644)
    expect(readConfig({ EAAS_CONFIG: file }).configFile).toBe(file)
  })

  it('is refused below a directory that others can write, also by a link, but for one with the sticky bit', () => {
    const [above, link] = [join(folder, 'above'), join(folder, 'link.json')]
    const below = join(above, 'below')
    mkdirSync(below, { recursive: true })
    const inside = join(below, 'config.json')
    writeFileSync(inside, '{}')
    symlinkSync(inside, link)
    for (const directory of [above, below]) {
      for (const mode of [0o775, 0o757]) {
        chmodSync(directory, mode)
        for (const path of [inside, link])
          expect(() => readConfig({ EAAS_CONFIG: path })).toThrow(`other users can write ${directory}: chmod go-w`)
      }
      chmodSync(directory, 0o1777)
      expect(readConfig({ EAAS_CONFIG: link }).configFile).toBe(link)
      chmodSync(directory, 0o755)
    }
  })

  it.skipIf(process.getuid?.() !== 0)('is refused where it, or a directory above it, is another user’s', () => {
    const below = mkdtempSync(join(folder, 'below-'))
    const inside = join(below, 'config.json')
    writeFileSync(inside, '{}')
    for (const path of [inside, below]) {
      chownSync(path, 65_534, 65_534)
      expect(() => readConfig({ EAAS_CONFIG: inside })).toThrow(`${path} belongs to the user 65534`)
      chownSync(path, 0, 0)
    }
    expect(readConfig({ EAAS_CONFIG: inside }).configFile).toBe(inside)
  })

  it('is refused where another file took its place after it was opened', () => {
    const other = `${file}.other`
    for (const path of [file, other]) writeFileSync(path, '{}')
    const opened = openSync(other, 'r')
    expect(findForeign(file, opened)).toBe(`${file} was replaced while it was read`)
    closeSync(opened)
  })
})
