// The recipes for haproxy and nginx of the guide on several processes, as whole configurations on ports of this machine.
import { blockOf } from '../sources/server-docs.js'

const GUIDE = 'several-processes.md'

/** @param ports those of the two servers, which replace the recipe's addresses */
export function haproxyConfig(port: number, ports: readonly (number | string)[], ca?: string): string {
  const defaults = 'defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n'
  const frontend = `frontend in\n  bind 127.0.0.1:${port}\n  default_backend eaas\n`
  if (ca === undefined) return defaults + frontend + recipe('backend eaas', ports)
  const [plain, tls] = [recipe('backend eaas', ports), recipe('  server one 10.0.0.1:8420 check inter 2s ssl', ports)]
  return `${defaults}${frontend}${plain.replaceAll(/^ {2}server .*\n/gm, '')}${withAuthority(tls, ca)}`
}

/** @param folder for the files that nginx writes */
export function nginxConfig(port: number, ports: readonly (number | string)[], folder: string, ca?: string): string {
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const paths = kinds.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n')
  const tls = ca === undefined ? '' : withAuthority(recipe('  proxy_ssl_verify on;', ports), ca)
  const plain = recipe('map ', ports).replace('server {\n', `server {\n  listen 127.0.0.1:${port};\n${tls}`)
  const http = ca === undefined ? plain : plain.replaceAll('proxy_pass http:', 'proxy_pass https:')
  return `pid ${folder}/pid;\nevents {}\nhttp {\naccess_log off;\nerror_log /dev/null;\n${paths}\n${http}}\n`
}

/** With the authority of a test, whose certificates are for localhost. */
function withAuthority(text: string, ca: string): string {
  return text.replaceAll(/\/etc\/\S+\/eaas-ca\.pem/g, ca).replaceAll('eaas.example.org', 'localhost')
}

function recipe(firstLine: string, ports: readonly (number | string)[]): string {
  const text = blockOf(GUIDE, firstLine)
  return text.replaceAll(/10\.0\.0\.([12]):8420/g, (_, number) => `127.0.0.1:${ports[number - 1]}`)
}
