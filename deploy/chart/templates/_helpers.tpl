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
terminationGracePeriodSeconds: {{ .graceSeconds | default 30 }}
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

{{/* The value of an option of a command, such as --writer observer or --writer=observer, or the default. */}}
{{- define "noted-time.option" -}}
{{- $value := .default -}}
{{- range $number, $word := .options -}}
{{- if hasPrefix (printf "%s=" $.name) $word -}}
{{- $value = trimPrefix (printf "%s=" $.name) $word -}}
{{- else if and (eq $word $.name) (lt (add1 $number) (len $.options)) -}}
{{- $value = index $.options (add1 $number) -}}
{{- end -}}
{{- end -}}
{{- $value -}}
{{- end }}

{{/* Refuse a name that would be given to two Deployments, and observers that would fence each other. */}}
{{- define "noted-time.checkNames" -}}
{{- range $kind := list "observers" "relays" -}}
{{- $names := list -}}
{{- range index $.Values $kind -}}
{{- if has .name $names -}}
{{- fail (printf "%s: two have the name %q, and a Deployment is named by it: give each its own name" $kind .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- end -}}
{{- $writers := dict -}}
{{- range .Values.observers -}}
{{- $stream := include "noted-time.option" (dict "name" "--stream" "options" .options "default" .topic) -}}
{{- $writer := include "noted-time.option" (dict "name" "--writer" "options" .options "default" "observer") -}}
{{- $key := printf "%s/%s" $stream $writer -}}
{{- if hasKey $writers $key -}}
{{- fail (printf "observers: %q and %q both note as the writer %q of the stream %q, and the younger would take the name over: give one of them --writer NAME in its options" (get $writers $key) .name $writer $stream) -}}
{{- end -}}
{{- $_ := set $writers $key .name -}}
{{- end -}}
{{- end }}
