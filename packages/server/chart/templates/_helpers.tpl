{{- define "eaas.labels" -}}
{{ include "eaas.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "eaas.selector" -}}
app.kubernetes.io/name: eaas
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "eaas.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ required "image.digest or image.tag" $image.tag }}
{{- end -}}
{{- end }}

{{- define "eaas.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "eaas.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "eaas.env" -}}
{{- if .Values.secret.rootKey }}
- { name: EAAS_ROOT_KEY_FILE, value: /run/secrets/eaas/root-key }
{{- end }}
- { name: EAAS_DATABASE_URL_FILE, value: /run/secrets/eaas/database-url }
{{- if .Values.databaseCa.configMap }}
- { name: NODE_EXTRA_CA_CERTS, value: /run/database-ca/ca.crt }
{{- end }}
{{- range $name, $value := .Values.settings }}
- { name: {{ $name }}, value: {{ kindIs "float64" $value | ternary (toJson $value) (toString $value) | quote }} }
{{- end }}
{{- end }}

{{- define "eaas.mounts" -}}
- { name: secrets, mountPath: /run/secrets/eaas, readOnly: true }
{{- if .Values.databaseCa.configMap }}
- { name: database-ca, mountPath: /run/database-ca, readOnly: true }
{{- end }}
{{- end }}

{{- define "eaas.volumes" -}}
- name: secrets
  secret:
    secretName: {{ .Values.secret.name }}
    defaultMode: 0440
    items:
      {{- if .Values.secret.rootKey }}
      - { key: {{ .Values.secret.rootKey }}, path: root-key }
      {{- end }}
      - { key: {{ .Values.secret.databaseUrl }}, path: database-url }
{{- if .Values.databaseCa.configMap }}
- name: database-ca
  configMap: { name: {{ .Values.databaseCa.configMap }} }
{{- end }}
{{- end }}
