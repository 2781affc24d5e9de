// Generators of API clients for Go and Python: finds them, or installs them into a cache of the user.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'

const OAPI_CODEGEN = 'github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2'
const OPENAPI_PYTHON_CLIENT = 'openapi-python-client==0.29.1'
const INSTALL_TIMEOUT_MS = 10 * 60_000

const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'eaas-tests')

/** Finds the `go` command on the PATH or where Go installs itself, and installs oapi-codegen. */
export function findOrInstallGoGenerator(): { go: string; oapiCodegen: string } | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/local/go/bin']
  const go = folders.map((folder) => join(folder, 'go')).find((path) => existsSync(path))
  const bin = join(cache, 'oapi-codegen-2.8.2')
  const oapiCodegen = join(bin, 'oapi-codegen')
  if (go && !existsSync(oapiCodegen))
    attempt(OAPI_CODEGEN, () => execute(go, ['install', OAPI_CODEGEN], { GOBIN: bin }))
  if (go && existsSync(oapiCodegen)) return { go, oapiCodegen }
  console.error('!!! NO GO OR NO OAPI-CODEGEN FOUND: no client for Go is generated from the OpenAPI document.')
  return undefined
}

/** Installs openapi-python-client with pip in its own environment, whose `python` can run the generated client. */
export function findOrInstallPythonGenerator(): { bin: string } | undefined {
  const folder = join(cache, OPENAPI_PYTHON_CLIENT.replace('==', '-'))
  const bin = join(folder, 'bin')
  const isThere = () => existsSync(join(bin, 'openapi-python-client'))
  if (!isThere())
    attempt(OPENAPI_PYTHON_CLIENT, () => {
      mkdirSync(cache, { recursive: true })
      execute('python3', ['-m', 'venv', folder])
      execute(join(bin, 'pip'), ['install', '--quiet', '--only-binary=:all:', OPENAPI_PYTHON_CLIENT])
    })
  if (isThere()) return { bin }
  rmSync(folder, { recursive: true, force: true })
  console.error('!!! NO OPENAPI-PYTHON-CLIENT: no client for Python is generated from the OpenAPI document.')
  return undefined
}

function attempt(what: string, install: () => void): void {
  console.error(`${what} not found: installing it into ${cache} …`)
  try {
    install()
  } catch (error) {
    console.error(`${what} could not be installed: ${error instanceof Error ? error.message.trim() : error}`)
  }
}

function execute(program: string, args: string[], environment: NodeJS.ProcessEnv = {}): void {
  const env = { ...process.env, ...environment }
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'pipe'], timeout: INSTALL_TIMEOUT_MS, env })
}
