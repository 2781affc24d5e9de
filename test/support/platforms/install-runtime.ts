// JavaScript runtimes from the npm registry.
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const INSTALL_TIMEOUT_MS = 5 * 60_000

/**
 * Installs a runtime from the registry below a folder, once, and returns the path of its program.
 *
 * @param source such as `bun@1`
 * @throws if it cannot be had
 */
export async function installRuntime(folder: string, source: string): Promise<string> {
  const [name = ''] = source.split('@')
  const home = join(folder, `runtime-${source.replace('@', '-')}`)
  const command = join(home, 'node_modules/.bin', name)
  if (existsSync(command)) return command
  await mkdir(home, { recursive: true })
  await writeFile(join(home, 'package.json'), '{ "private": true }')
  const options = { cwd: home, timeout: INSTALL_TIMEOUT_MS }
  await run('npm', ['install', '--no-audit', '--no-fund', '--no-package-lock', source], options)
  const works = () =>
    run(command, ['--version']).then(
      () => true,
      () => false,
    )
  if (await works()) return command
  // npm may be configured to run no scripts; then the script that fetches the program is run here.
  const place = join(home, 'node_modules', name)
  const { scripts = {} } = JSON.parse(readFileSync(join(place, 'package.json'), 'utf8')) as {
    scripts?: Record<string, string>
  }
  for (const script of [scripts.preinstall, scripts.postinstall]) {
    if (script !== undefined) await run('sh', ['-c', script], { ...options, cwd: place })
  }
  if (await works()) return command
  throw new Error(`${source} was installed and does not start`)
}
