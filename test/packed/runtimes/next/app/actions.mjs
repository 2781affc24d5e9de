'use server'
import { eaas } from './eaas.mjs'

export async function seal(form) {
  const envelope = await eaas.encrypt(String(form.get('value')), { keyId: process.env.EAAS_KEY_ID })
  console.log(`sealed and opened: ${await eaas.decryptText(envelope)}`)
}
