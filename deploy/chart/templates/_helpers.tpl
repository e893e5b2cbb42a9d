{{- define "noted-time.labels" -}}
{{ include "noted-time.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "noted-time.selector" -}}
app.kubernetes.io/name: noted-time
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Where the controller of a pod can be called; clients go to the owner if they have these very URLs. */}}
{{- define "noted-time.url" -}}
http{{ if .root.Values.tls.secretName }}s{{ end }}://{{ .pod }}.{{ .root.Release.Name }}-pods.{{ .root.Release.Namespace }}.svc:7464
{{- end }}

{{- define "noted-time.urls" -}}
{{- $root := . -}}
{{- range $number := until (int .Values.replicas) -}}
{{- if $number }},{{ end -}}
{{ include "noted-time.url" (dict "root" $root "pod" (printf "%s-%d" $root.Release.Name $number)) }}
{{- end }}
{{- end }}

{{/* What all pods have. A Service called noted-time would set NOTED_TIME_PORT to a URL: hence no service links. */}}
{{- define "noted-time.pod" -}}
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: 30
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "noted-time.annotations" -}}
{{- with .Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "noted-time.container" -}}
image: {{ .Values.image | quote }}
imagePullPolicy: {{ .Values.imagePullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "noted-time.database" -}}
- name: NOTED_TIME_DATABASE
{{- with .Values.postgresql }}
{{- if .secretName }}
  valueFrom: {secretKeyRef: {name: {{ .secretName }}, key: {{ .secretKey }}}}
{{- else }}
  value: sqlite:////data/noted-time.db
{{- end }}
{{- if .caSecretName }}
- {name: PGSSLROOTCERT, value: /postgresql/ca.crt}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What `migrate` and `serve` need of the database. */}}
{{- define "noted-time.databaseMounts" -}}
{{- if not .Values.postgresql.secretName }}
- {name: data, mountPath: /data}
{{- end }}
{{- if .Values.postgresql.caSecretName }}
- {name: postgresql, mountPath: /postgresql, readOnly: true}
{{- end }}
{{- end }}
