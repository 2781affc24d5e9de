// `npm run pack -- FOLDER`: packs what is published into FOLDER/eaas-packages, and prints the commands that install it there. For as long
// as nothing is on npm.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BUILT, listOutdated } from '../test/built.mjs'

const NAME = 'eaas-packages'
/** What is installed for each use: npm finds packages that depend on each other only if one command names them all. */
const USES = [
  ['encrypt in an application', ['sdk']],
  ['with an ORM: drizzle, kysely, prisma or typeorm', ['sdk', 'drizzle']],
  ['run a server', ['server', 'audit', 'console']],
  ['encrypt tables that exist', ['cli', 'sdk']],
  ['verify an audit log', ['audit']],
  ['test whether a server keeps the contract', ['conformance', 'audit', 'sdk']],
]

const [given, ...rest] = process.argv.slice(2)
if (given === undefined || given.startsWith('-') || rest.length > 0) {
  console.log('npm run pack -- FOLDER\n\nPacks EaaS for an application in FOLDER, and prints how to install it there.')
  process.exit(given === '--help' ? 0 : 2)
}
// npm runs scripts in the root, and says in INIT_CWD where the user is.
const folder = resolve(process.env.INIT_CWD ?? '.', given)
if (existsSync(folder) && !statSync(folder).isDirectory()) {
  console.error(`${given} is a file; give the folder of an application`)
  process.exit(2)
}
process.chdir(fileURLToPath(new URL('..', import.meta.url)))
if (listOutdated().length > 0) {
  console.error('The build is missing or older than the sources. Run: npm run build')
  process.exit(1)
}
const into = resolve(folder, NAME)
mkdirSync(into, { recursive: true })

// On Windows npm is a script, which only a shell runs.
const shell = process.platform === 'win32'
const args = ['pack', '--ignore-scripts', '--loglevel=error', '--pack-destination', shell ? `"${into}"` : into]
const { status, stdout } = spawnSync('npm', [...args, ...BUILT.flatMap((path) => ['-w', path])], {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
  shell,
})
if (status !== 0) process.exit(1)

const packed = stdout.trim().split('\n')
const tarball = (name) => `./${NAME}/${packed.find((file) => file.startsWith(`eaas-${name}-`))}`
console.log(`Packed ${packed.length} packages. In ${given}:\n`)
for (const [use, names] of USES) console.log(`# ${use}\nnpm install ${names.map(tarball).join(' ')}\n`)
