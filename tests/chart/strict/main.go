// Reads objects of the Prometheus operator as the operator itself would, and refuses a field that its types lack.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	kinds := map[string]any{"ServiceMonitor": &v1.ServiceMonitor{}, "PrometheusRule": &v1.PrometheusRule{}}
	if err == nil {
		err = yaml.UnmarshalStrict(text, kinds[os.Args[1]])
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
