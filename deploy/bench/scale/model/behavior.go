package model

import "math"

// Behavior is the assumed behavior of agents and operators, which the code does not determine.
type Behavior struct {
	AgentsPerHome int     // mean
	HomeSkew      float64 // a home has agents in proportion to its rank to the power of -HomeSkew
	Handoffs      float64 // started per agent and day
	Texts         float64 // written per agent and day
	Local         float64 // share of recipients at the home of the sender
	Contacts      int     // other agents in the address book of an agent
	Repeat        float64 // share of remote recipients from the address book; the others are drawn by popularity
	OpenOffers    float64 // share of offers to anyone
	Accepted      float64 // share of offers
	Declined      float64 // share of offers; the remaining ones are not answered
	AlwaysOn      float64 // share of agents that always read their inbox; the others have a working day
	WorkingHours  float64
	Rhythm        float64    // amplitude of the activity over a day
	Zones         [3]int     // time zones of homes, in hours
	ZoneShares    [3]float64 // shares of homes
	SlowAnswer    float64    // mean time in seconds to an answer of an agent with a working day; others take a tenth
	Work          float64    // mean time from accept to complete, in seconds
	NetworkLeast  float64    // between a home and the hub, in seconds
	NetworkMost   float64
}

// Assumed returns the behavior of the published run.
func Assumed() Behavior {
	return Behavior{
		AgentsPerHome: 1000, HomeSkew: 0.5,
		Handoffs: 3, Texts: 6, Local: 0.6, Contacts: 8, Repeat: 0.9, OpenOffers: 0.01, Accepted: 0.75, Declined: 0.15,
		AlwaysOn: 0.7, WorkingHours: 9, Rhythm: 0.8, Zones: [3]int{-6, 1, 8}, ZoneShares: [3]float64{0.35, 0.35, 0.3},
		SlowAnswer: 300, Work: 1200, NetworkLeast: 0.005, NetworkMost: 0.060,
	}
}

// Protocol is the traffic between homes that depends on the number of homes.
type Protocol struct {
	Name string
	// StreamPerHome is true for one stream per home at the hub, and false for one per pair of homes
	// and direction.
	StreamPerHome bool
	Greetings     float64 // from each home to each other home, per second
	Profiles      float64 // for comparisons of clocks, like Greetings
	SearchesAll   bool    // the search for a mailbox queries all homes, not one directory at the hub
	OpenTo        int     // homes that receive an offer to anyone; 0 for all
	// For an absent home: the retry interval of another home, and the messages per attempt.
	Redial       float64 // seconds
	RedialCopies int
}

// Constants of federation/relay and bridge: clockEvery; hubAnswer and lastWait; hubAnswer /
// hubResend, rounded up; hubBytes; askedAtOnce; maxItems.
const (
	profileEvery = 600
	redialEvery  = 10 + 30
	redialCopies = 4
	StreamBytes  = 16 << 20
	searchAtOnce = 32
	batchSteps   = 256
)

// Today returns the protocol of this version.
func Today(c Costs) Protocol {
	return Protocol{
		Name: "today", Greetings: c.Greetings, Profiles: 1.0 / profileEvery, SearchesAll: true, Redial: redialEvery, RedialCopies: redialCopies,
	}
}

// Planned returns the protocol of the plan in federation/relay/README.md.
func Planned() Protocol {
	return Protocol{
		Name: "planned", StreamPerHome: true, Greetings: 1.0 / 3600, SearchesAll: false, OpenTo: 10, Redial: redialEvery, RedialCopies: 1,
	}
}

func (p Protocol) streams(homes int) float64 {
	if p.StreamPerHome {
		return float64(homes)
	}
	return float64(homes) * float64(homes-1)
}

func mix(seed, a, b uint64) uint64 {
	x := seed + a*0x9e3779b97f4a7c15 + b*0xd1b54a32d192ed03
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func share(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// popular returns the rank of one of n agents by Zipf's law with exponent 1, for which the integral
// of 1/rank is a logarithm.
func popular(u float64, n int) int { return min(n-1, int(math.Exp(u*math.Log(float64(n+1)))-1)) }

// MaxHomes bounds the homes of a run, which needs 125 KB for each thousand agents and home.
const MaxHomes = 1000
