/** The file of EAAS_CONFIG: settings as JSON. They are turned into variables, so that one reader checks all values. */
import { closeSync, fstatSync, openSync, readFileSync, realpathSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import * as z from 'zod/mini'
import { ConfigError, getSetting, NAMES, nameInFile, VARIABLES } from './settings.js'

/** The settings that the file may contain. It names secrets by their files, and does not name itself. */
const HELD = NAMES.filter((name) => getSetting(name).secret !== 'whole' && name !== 'EAAS_CONFIG')

function createSchema() {
  const known = HELD.map((name) => {
    const schema = z.optional(getSetting(name).schema)
    return [nameInFile(name), schema.check(z.describe(VARIABLES[name]))] as const
  })
  return z.strictObject({ $schema: z.optional(z.string()), ...Object.fromEntries(known) })
}

export function configSchema(): object {
  return { ...z.toJSONSchema(createSchema(), { target: 'draft-2020-12' }), title: 'Configuration of eaas' }
}

/** Reads the file and returns its settings as variables. @throws ConfigError, which never shows a value */
export function readConfigFile(path: string): Record<string, string> {
  const parsed = createSchema().safeParse(readJson(path))
  if (!parsed.success) throw new ConfigError(describeFault(path, parsed.error.issues[0]))
  const held: Record<string, unknown> = parsed.data
  return Object.fromEntries(
    HELD.flatMap((name) => {
      const value = held[nameInFile(name)]
      const { join = String } = getSetting(name)
      return value === undefined ? [] : [[name, Array.isArray(value) ? join(value) : String(value)]]
    }),
  )
}

function readJson(path: string): unknown {
  let text: string
  let file: number | undefined
  try {
    file = openSync(path, 'r')
    text = readFileSync(file, 'utf8')
    const foreign = findForeign(path, file) // the file names programs that the server executes
    if (foreign !== undefined) throw new ConfigError(`${foreign} (EAAS_CONFIG)`)
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const { code } = error as NodeJS.ErrnoException
    throw new ConfigError(`EAAS_CONFIG names a file that cannot be read (${code}): ${path}`)
  } finally {
    if (file !== undefined) closeSync(file)
  }
  try {
    return JSON.parse(text)
  } catch {
    throw new ConfigError(`${path} (EAAS_CONFIG) is not JSON`) // the parser's own message would quote the file
  }
}

function describeFault(path: string, issue: z.core.$ZodIssue | undefined): string {
  const settingAt = (key: string) => NAMES.find((name) => nameInFile(name) === key)
  const [key] = issue?.code === 'unrecognized_keys' ? issue.keys : []
  if (key !== undefined) {
    const name = settingAt(key)
    return name && getSetting(name).secret === 'whole'
      ? `${path} (EAAS_CONFIG) holds ${key}, which is a secret: name a file with it by ${key}_file`
      : `${path} (EAAS_CONFIG) has no setting ${key}: see eaas config schema`
  }
  const [setting, ...items] = (issue?.path ?? []).map(String)
  if (setting === undefined) return `${path} (EAAS_CONFIG) must be a JSON object`
  const name = settingAt(setting)
  const expected = name ? getSetting(name).expected : 'a text'
  return `${items.length > 0 ? `${setting}, item ${items.join('.')},` : setting} in ${path} (EAAS_CONFIG) must be ${expected}`
}

const WRITABLE_BY_OTHERS = 0o022
const STICKY = 0o1000

/**
 * Returns why an open file is not to be trusted; undefined if it is, and always on Windows. As sshd does for its files,
 * requires that root or this process's user owns the file and each directory above, and that no other user may write
 * there. The sticky bit of a directory like /tmp is accepted, since it keeps users from replacing each other's files.
 */
export function findForeign(path: string, file: number): string | undefined {
  const user = process.geteuid?.()
  if (user === undefined) return undefined
  const real = realpathSync(path)
  const opened = fstatSync(file)
  const { ino, dev } = statSync(real)
  if (ino !== opened.ino || dev !== opened.dev) return `${path} was replaced while it was read`
  for (let at = real; ; at = dirname(at)) {
    const fault = judge(at, at === real ? opened : statSync(at), user)
    if (fault !== undefined || at === dirname(at)) return fault
  }
}

function judge(path: string, stats: Stats, user: number): string | undefined {
  const { uid, mode } = stats
  if (uid !== 0 && uid !== user) return `${path} belongs to the user ${uid}, who can change it: chown it to root`
  const isSticky = stats.isDirectory() && (mode & STICKY) !== 0
  if ((mode & WRITABLE_BY_OTHERS) === 0 || isSticky) return undefined
  return `other users can write ${path}: chmod go-w`
}
