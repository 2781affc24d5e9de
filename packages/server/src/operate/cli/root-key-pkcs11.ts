/** `eaas root-key pkcs11`: a program for EAAS_ROOT_KEY_EXEC, whose root key is in an HSM. */
import { isAbsolute } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { Argument, type Command, InvalidArgumentError } from 'commander'
import { isReadableByAll } from '../../core/crypto/root-key.js'
import { generateInHsm, type HsmKey, unwrapByHsm, wrapByHsm } from '../../root-keys/pkcs11.js'
import { readKeptPath } from './command.js'
import { print } from './output.js'

type What = 'generate' | 'wrap' | 'unwrap'

/** Adds `eaas root-key pkcs11`. */
export function addPkcs11(rootKey: Command): void {
  rootKey
    .command('pkcs11')
    .description('Use a root key that an HSM holds, by pkcs11-tool of OpenSC. Reads no other settings.')
    .requiredOption('--module <path>', "the HSM's PKCS#11 library", readKeptPath)
    .requiredOption('--token <label>', 'its token')
    .requiredOption('--id <hex>', 'the id of the key, such as 01', readKeyId)
    .requiredOption('--pin-file <file>', "a file with the user's PIN, its whole path", readWholePath)
    .addArgument(
      new Argument('<what>', 'make the key, or wrap or unwrap standard input').choices(['generate', 'wrap', 'unwrap']),
    )
    .addHelpText(
      'after',
      `
The server calls wrap and unwrap by itself: set EAAS_ROOT_KEY_EXEC to this command with its options, without the last
word.`,
    )
    .action((what: What, key: HsmKey) => run(what, key))
}

async function run(what: What, key: HsmKey): Promise<void> {
  if (what === 'generate') {
    await generateInHsm(key)
    print(`The token ${key.token} has a new root key of the id ${key.id}.`)
  } else {
    const input = await buffer(process.stdin)
    process.stdout.write(await (what === 'wrap' ? wrapByHsm : unwrapByHsm)(key, input))
  }
  if (await isReadableByAll(key.pinFile)) {
    process.stderr.write(`eaas: everybody on this machine can read ${key.pinFile}: chmod 600\n`)
  }
}

// Services call this command in another folder.
function readWholePath(text: string): string {
  if (isAbsolute(text)) return text
  throw new InvalidArgumentError('It must be a whole path, such as /etc/eaas/pin.')
}

// An HSM keeps bytes: 1 and 01, B and 0b are one id.
function readKeyId(text: string): string {
  if (/^([0-9a-f]{2})+$/i.test(text)) return text.toLowerCase()
  throw new InvalidArgumentError('It must be pairs of hexadecimal digits, such as 01.')
}
