// `npm run pack -- FOLDER`: packs what is published into FOLDER/eaas-packages, and prints the commands that install it there. For as long
// as nothing is on npm.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const NAME = 'eaas-packages'
/** What is installed for each use: npm finds packages that depend on each other only if one command names them all. */
const USES = [
  ['encrypt in an application', ['sdk']],
  ['with an ORM: drizzle, kysely, prisma or typeorm', ['sdk', 'drizzle']],
  ['run a server', ['server', 'audit', 'console']],
  ['encrypt tables that exist', ['cli', 'sdk']],
  ['verify an audit log', ['audit']],
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
mkdirSync(`${folder}/${NAME}`, { recursive: true })

const manifests = readdirSync(`${ROOT}packages`)
  .filter((name) => existsSync(`${ROOT}packages/${name}/package.json`))
  .map((name) => JSON.parse(readFileSync(`${ROOT}packages/${name}/package.json`, 'utf8')))
const published = manifests.filter((manifest) => manifest.private !== true)
const args = ['pack', '--ignore-scripts', '--loglevel=error', '--pack-destination', `${folder}/${NAME}`]
// On Windows npm is a script, which only a shell runs.
const { status } = spawnSync('npm', [...args, ...published.flatMap(({ name }) => ['-w', name])], {
  cwd: ROOT,
  stdio: ['ignore', 'ignore', 'inherit'],
  shell: process.platform === 'win32',
})
if (status !== 0) process.exit(1)

const tarball = (name) => {
  const { version } = published.find((manifest) => manifest.name === `@eaas/${name}`)
  return `./${NAME}/eaas-${name}-${version}.tgz`
}
console.log(`Packed ${published.length} packages. In ${relative(process.env.INIT_CWD ?? '.', folder) || '.'}:\n`)
for (const [use, names] of USES) console.log(`# ${use}\nnpm install ${names.map(tarball).join(' ')}\n`)
