'use client'
import { createClient } from '@eaas/sdk'
import { useState } from 'react'

const eaas = createClient({ baseUrl: '/api/eaas' })

export function Secret() {
  const [keyId, setKeyId] = useState('')
  const [text, setText] = useState('not yet')
  const run = async () => setText(await eaas.decryptText(await eaas.encrypt('sealed in the page', { keyId })))
  return (
    <>
      <input name="key" value={keyId} onChange={(event) => setKeyId(event.target.value)} />
      <button type="button" onClick={() => run().catch((error) => setText(String(error)))}>
        {text}
      </button>
    </>
  )
}
