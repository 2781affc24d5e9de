/** `eaas root-key pkcs11`: a program for EAAS_ROOT_KEY_EXEC, whose root key is in an HSM. */
import { buffer } from 'node:stream/consumers'
import { Argument, type Command } from 'commander'
import { generateInHsm, type HsmKey, unwrapByHsm, wrapByHsm } from '../root-key/pkcs11.js'
import { print } from './output.js'

type What = 'generate' | 'wrap' | 'unwrap'

/** Adds `eaas root-key pkcs11`. */
export function addPkcs11(rootKey: Command): void {
  rootKey
    .command('pkcs11')
    .description('Use a root key that an HSM holds, by pkcs11-tool of OpenSC. Reads no other settings.')
    .requiredOption('--module <path>', "the HSM's PKCS#11 library")
    .requiredOption('--token <label>', 'its token')
    .requiredOption('--id <hex>', 'the id of the key')
    .requiredOption('--pin-file <file>', "a file with the user's PIN")
    .addArgument(
      new Argument('<what>', 'make the key, or wrap or unwrap standard input').choices(['generate', 'wrap', 'unwrap']),
    )
    .addHelpText(
      'after',
      `
The server calls wrap and unwrap by itself: set EAAS_ROOT_KEY_EXEC to this command with its options, without the last
word. Give the id an even number of digits, such as 01.`,
    )
    .action((what: What, key: HsmKey) => run(what, key))
}

async function run(what: What, key: HsmKey): Promise<void> {
  if (what === 'generate') {
    await generateInHsm(key)
    return print(`The token ${key.token} has a new root key of the id ${key.id}.`)
  }
  const input = await buffer(process.stdin)
  process.stdout.write(await (what === 'wrap' ? wrapByHsm : unwrapByHsm)(key, input))
}
